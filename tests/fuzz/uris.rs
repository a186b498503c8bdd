//! URIs and the merged view's names: what parses has one spelling, and what is merged comes apart again (H-7, H-8).
//!
//! Input: a label, a space, a URI.
#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis::domain::Label;
use portcullis::domain::ResourceUri;
use portcullis::domain::SkillUri;
use portcullis::domain::mapping;
use portcullis::domain::mapping::Merged;

fuzz_target!(|text: &str| {
    let (label, uri) = text.split_once(' ').unwrap_or(("a", text));
    one_name(uri);
    if let Ok(uri) = uri.parse::<ResourceUri>() {
        assert_eq!(uri.as_str().parse(), Ok(uri.clone()), "what parses is its own spelling");
        assert!(uri.ancestors().all(|above| uri.as_str().starts_with(above)));
        if let Ok(label) = label.parse::<Label>() {
            let name = mapping::merge(&label, &uri);
            assert_eq!(mapping::split(&name), Ok(Merged::Skill(label, uri)));
            one_name(&name);
        }
    }
    if let Ok(skill) = uri.parse::<SkillUri>() {
        assert!(skill.contains(skill.as_resource()), "a skill holds its own SKILL.md");
        assert!(skill.as_str().starts_with(skill.root()));
    }
    if let Ok(label) = label.parse::<Label>()
        && let Ok(name) = mapping::merge_passed(&label, uri)
    {
        assert_eq!(mapping::split(&name), Ok(Merged::Passed(label, uri.to_owned())));
    }
});

/// What comes apart goes together to the same bytes: no resource has two names.
fn one_name(name: &str) {
    let again = match mapping::split(name) {
        Ok(Merged::Skill(label, uri)) => mapping::merge(&label, &uri),
        Ok(Merged::Passed(label, uri)) => mapping::merge_passed(&label, &uri).expect("it has a scheme"),
        Err(_) => return,
    };
    assert_eq!(again, name);
}
