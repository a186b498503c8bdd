//! Inspection: no bytes make it panic, loop or grow, and what it says can be printed and lies in the file.
//!
//! Input: a file's path below its skill's root, a zero byte, its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis::domain::inspect;
use portcullis::domain::inspect::Check;
use portcullis::domain::inspect::MAX_DETAIL_CHARS;
use portcullis::domain::inspect::MAX_REMARKS;

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (path, file) = bytes.split_at(cut);
    let path = String::from_utf8_lossy(path);
    let file = file.get(1..).unwrap_or_default();
    let remarks = inspect::file(&path, file);
    assert_eq!(remarks, inspect::file(&path, file), "remarks depend on the file alone");
    for remark in &remarks {
        assert!(remark.detail.chars().count() <= MAX_DETAIL_CHARS);
        assert!(!remark.to_string().chars().any(char::is_control), "it can be printed");
        if let Some(position) = remark.position {
            // A byte that is not UTF-8 counts as a character, and a unit of UTF-16 as two bytes at least.
            assert!(position.line >= 1 && position.column >= 1);
            assert!(position.line + position.column <= file.len() + 2, "it lies in the file");
        }
    }
    for check in Check::ALL {
        assert!(remarks.iter().filter(|remark| remark.check == *check).count() <= MAX_REMARKS);
    }
    let names: Vec<&str> = path.split('/').collect();
    for name in inspect::look_alikes(names.iter().copied()).keys() {
        assert!(names.contains(name));
    }
});
