//! One file a verb.

pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod run;
pub(crate) mod selfcheck;
pub(crate) mod show;
pub(crate) mod sim;
