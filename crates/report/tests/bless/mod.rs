//! Generated text against its committed file. With GOODPUT_BLESS=1 the file is written instead.

use std::fs;
use std::path::Path;

/// Fails with what to do if the file under the crate's root is not exactly `text`.
pub(crate) fn check(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var("GOODPUT_BLESS").is_ok_and(|bless| bless == "1") {
        fs::create_dir_all(file.parent().expect("a file has a folder")).expect("the folder can be made");
        fs::write(&file, text).expect("the file can be written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "{path} is not what is generated; look at the change, then run GOODPUT_BLESS=1 cargo test -p goodput-report\n\
         --- generated\n{text}"
    );
}
