//! Entries of a listing: what is whole stays whole and keeps its set under both spellings of its URIs (S-16, H-7).
//!
//! Input: an entry.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis::domain::Label;
use portcullis::domain::Limits;
use portcullis::domain::ReadEntry;
use portcullis::domain::SkillEntry;
use portcullis::domain::mapping;

fuzz_target!(|text: &str| {
    let limits = Limits::default();
    match ReadEntry::parse(text, true, &limits) {
        Ok(ReadEntry::Whole(entry)) => {
            assert_eq!(entry.text(), text, "an entry's text is passed on as it came");
            whole(&entry, &limits);
        }
        Ok(ReadEntry::Unsized(entry)) => {
            assert!(
                SkillEntry::parse(text, &limits).is_err(),
                "without sizes it is not whole"
            );
            if let Ok(complete) = entry.complete(|_| Some(1), &limits) {
                assert_eq!(complete.uri(), entry.uri());
                whole(&complete, &limits);
            }
        }
        Err(rejected) => {
            let _words = rejected.to_string();
        }
    }
});

fn whole(entry: &SkillEntry, limits: &Limits) {
    let again = SkillEntry::parse(entry.text(), limits).expect("whole once, whole again");
    assert_eq!(again.set(), entry.set());
    let root = entry.uri();
    assert!(
        entry.resources().iter().all(|file| root.contains(&file.uri)),
        "every file is below the skill"
    );
    let label: Label = "a".parse().expect("a label");
    let merged = entry.text_with_uris(|uri| mapping::merge(&label, uri));
    let merged = SkillEntry::parse(&merged, limits).expect("the merged view's entry is whole");
    assert_eq!(merged.resources().iter().count(), entry.resources().iter().count());
    assert_eq!(merged.frontmatter().canonical(), entry.frontmatter().canonical());
}
