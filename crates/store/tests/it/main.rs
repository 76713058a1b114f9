//! The run directory from outside: what is written comes back, what is cut is reported, what is foreign is
//! refused.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up or read its files has failed")]

mod damage;
mod fixture;
mod parquet_files;
mod round_trip;
mod run_reader;
mod summary_file;
mod timelines;
