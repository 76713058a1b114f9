//! The findings in words, most severe first.

use crate::layout::paragraph;
use goodput_core::summary::{Finding, Severity, Summary};

/// Every finding with what was seen and what to do; a sentence if there is none.
pub(super) fn section(s: &Summary) -> String {
    if s.findings.is_empty() {
        return "findings    none: no rule saw anything that touches these figures\n".into();
    }
    let mut sorted: Vec<&Finding> = s.findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    let mut text = "findings\n".to_owned();
    for finding in sorted {
        text += &finding_text(finding);
    }
    text
}

fn finding_text(f: &Finding) -> String {
    let severity = match f.severity {
        Severity::Invalid => "  INVALID   ",
        Severity::Warning => "  warning   ",
        Severity::Note => "  note      ",
    };
    let seen = if f.evidence.is_empty() { String::new() } else { format!(" ({})", f.evidence.join("; ")) };
    let mut text = paragraph(severity, &format!("{}: {}{seen}", f.rule, f.message));
    if !f.remedy.is_empty() {
        text += &paragraph("            -> ", &f.remedy);
    }
    text
}
