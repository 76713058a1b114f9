//! A request as it is understood: what it asks for, and what goes wrong with it.

use crate::answer::{Answer, refusal};
use crate::ask::Ask;
use crate::fault::{FaultRule, Faults, Refusal, parse_rules};
use crate::http::Request;
use goodput_core::rng::Seed;
use goodput_core::time::Nanos;

/// Where and when a request is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occasion {
    /// Number of the request.
    pub(crate) n: u64,
    /// When it is served.
    pub(crate) start: Nanos,
    /// The same in Unix seconds.
    pub(crate) created: u64,
}

/// Reads a request under the server's rules and then its own. One that is refused, or never answered, has its answer as
/// the error.
pub(crate) fn read(
    request: &Request,
    rules: &[FaultRule],
    seed: Seed,
    occasion: Occasion,
) -> Result<(Ask, Faults), Box<Answer>> {
    let refuse = |status, message: &str| Box::new(refusal(status, message, request, occasion.start));
    let own = request.fault.as_deref().map(parse_rules).transpose();
    let own = own.map_err(|error| refuse(400, &error.to_string()))?.unwrap_or_default();
    let faults = Faults::draw(&[rules, &own].concat(), seed, occasion.n);
    match faults.refusal {
        Some(Refusal::Hang) => return Err(Box::new(Answer::Silence)),
        Some(Refusal::Status(status)) => return Err(refuse(status, "refused (injected fault)")),
        None => {}
    }
    let ask = Ask::read(&request.body).map_err(|error| refuse(400, &error.to_string()))?;
    if faults.refuse_stream_options && ask.stream_options.is_some() {
        return Err(refuse(400, "Extra inputs are not permitted: stream_options"));
    }
    Ok((ask, faults))
}
