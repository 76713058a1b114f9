//! From the flags of the simulated engine to a configuration: a shipped profile or a file, with knobs over it.

use crate::args::EngineArgs;
use crate::exit::Failure;
use goodput_model::profile::{Profile, ProfileError, Resolved};
use std::fs;
use std::path::Path;

/// A profile and what it comes to under the knobs that were typed.
pub(crate) struct SimEngine {
    pub(crate) profile: Profile,
    pub(crate) resolved: Resolved,
    /// Where each constant comes from.
    pub(crate) sources: Vec<String>,
}

/// Finds the profile and puts the knobs over it.
pub(crate) fn resolve(args: &EngineArgs) -> Result<SimEngine, Failure> {
    let profile = find(&args.profile)?;
    let resolved = profile.resolve(&args.knobs()).map_err(|e| refused(&e))?;
    let sources = profile.sources().map_err(|e| refused(&e))?;
    Ok(SimEngine { profile, resolved, sources })
}

/// A file if there is one of this name, else a shipped profile.
fn find(name: &str) -> Result<Profile, Failure> {
    if !Path::new(name).is_file() {
        return Profile::shipped(name).map_err(|e| {
            refused(&e).hint("`goodput sim profiles` tells more of them; a file of your own is read as well")
        });
    }
    let text = fs::read_to_string(name).map_err(|e| Failure::input(format!("cannot read {name}: {e}")))?;
    Profile::parse(name, &text).map_err(|e| refused(&e))
}

fn refused(error: &ProfileError) -> Failure {
    Failure::input(error.to_string())
}
