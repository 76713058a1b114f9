//! The built-in exact server (`goodput sim fixed`) as a process of its own, for verbs that bring their own server.

use crate::exit::Failure;
use crate::pin::{CpuList, with_affinity};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server process. It is killed when this is dropped, however that comes about.
pub(crate) struct ExactServer {
    child: Child,
    /// Its root.
    pub(crate) url: String,
}

impl ExactServer {
    /// Starts the same program with these arguments behind `sim fixed --port 0`, on those CPUs if some are named, and
    /// waits until it listens.
    pub(crate) fn start<S: AsRef<str>>(args: &[S], cpus: Option<&CpuList>) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::invalid(format!("cannot start the built-in server: {e}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["sim", "fixed", "--port", "0"])
            .args(args.iter().map(AsRef::as_ref))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A process inherits the CPUs of the thread that starts it.
        let child = with_affinity(cpus, || command.spawn().map_err(failed))?;
        let mut server = Self { child, url: String::new() };
        let mut line = String::new();
        if let Some(stdout) = server.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        match line.trim().strip_prefix("listening on ") {
            Some(url) => {
                url.clone_into(&mut server.url);
                Ok(server)
            }
            None => Err(Failure::invalid("the built-in server did not start")),
        }
    }

    /// Asks it to end and waits until it has, so that its truth file is whole.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::invalid(format!("cannot end the built-in server: {e}"));
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(|e| failed(e.into()))?;
        match self.child.wait().map_err(failed)? {
            status if status.success() => Ok(()),
            status => Err(Failure::invalid(format!("the built-in server failed ({status})"))),
        }
    }
}

impl Drop for ExactServer {
    fn drop(&mut self) {
        // It may have ended by itself already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
