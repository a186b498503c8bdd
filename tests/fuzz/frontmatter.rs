//! Frontmatter: no file makes the reader panic, loop or grow, and each file equals its own reading (H-32, H-33).
//!
//! Input: a `SKILL.md`, a zero byte, an entry's frontmatter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis::domain::FrontmatterPolicy;
use portcullis::domain::Json;
use portcullis::domain::frontmatter;

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (file, entry) = bytes.split_at(cut);
    let entry = std::str::from_utf8(entry.get(1..).unwrap_or_default()).unwrap_or("{}");
    let own = frontmatter::read(file);
    if let Ok(own) = &own {
        frontmatter::compare(file, own, FrontmatterPolicy::Readings).expect("a file equals its own reading");
    }
    if let Ok(entry) = Json::parse(entry) {
        let strict = frontmatter::compare(file, &entry, FrontmatterPolicy::Strict);
        let lenient = frontmatter::compare(file, &entry, FrontmatterPolicy::Readings);
        assert!(
            strict.is_err() || lenient.is_ok(),
            "what is equal strictly is equal leniently"
        );
        assert!(own.is_ok() || strict.is_err(), "what cannot be read equals nothing");
    }
});
