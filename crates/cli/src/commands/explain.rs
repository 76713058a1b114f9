//! `goodput explain`: definitions, straight from the tables.

use crate::args::ExplainArgs;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use goodput_core::metric::{METRICS, Metric};
use goodput_core::ruler::{RULERS, Ruler, describe, explain, ruler};

/// Prints what was asked for, or the list of what can be asked.
pub(crate) fn run(args: &ExplainArgs, printer: Printer) -> Result<Exit, Failure> {
    let chosen = find_ruler(&args.ruler)?;
    let Some(what) = &args.what else {
        printer.result(list());
        return Ok(Exit::Done);
    };
    match (Metric::from_name(what), ruler(what)) {
        (Some(metric), _) => printer.result(explain(metric, chosen)),
        (None, Some(ruler)) => printer.result(describe(ruler)),
        (None, None) => {
            return Err(Failure::input(format!("`{what}` is neither a metric nor a ruler")).hint(list()));
        }
    }
    Ok(Exit::Done)
}

/// The ruler with this name.
pub(crate) fn find_ruler(name: &str) -> Result<&'static Ruler, Failure> {
    ruler(name).ok_or_else(|| {
        let known = RULERS.iter().map(|r| r.name).collect::<Vec<_>>().join(", ");
        Failure::input(format!("`{name}` is not a ruler")).hint(format!("the rulers are {known}"))
    })
}

fn list() -> String {
    let mut text = "metrics:\n".to_owned();
    for metric in METRICS {
        text += &format!("  {:<20} {}\n", metric.name, metric.title);
    }
    text += "rulers:\n";
    for ruler in RULERS {
        text += &format!("  {:<20} {}\n", ruler.name, ruler.summary);
    }
    text + "`goodput explain METRIC --ruler RULER` prints a definition, `goodput explain RULER` a ruler."
}
