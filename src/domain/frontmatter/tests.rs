//! Every row of the dialects' disagreements, each tolerance, and inputs that must not break it.

use proptest::prelude::*;

use super::*;
use crate::domain::limits::MAX_FRONTMATTER_BYTES;
use crate::domain::limits::MAX_FRONTMATTER_DEPTH;

const PYYAML: Reading = Reading::Yaml11(Dialect::PyYaml);
const JAVASCRIPT: Reading = Reading::Yaml11(Dialect::JavaScript);
const JS_YAML_3: Reading = Reading::Yaml11(Dialect::JsYaml3);
const JS_YAML_4: Reading = Reading::Yaml11(Dialect::JsYaml4);

/// A file with `yaml` between its fences.
fn file(yaml: &str) -> Vec<u8> {
    format!("---\n{yaml}---\n\n# Body\n").into_bytes()
}

fn entry(json: &str) -> Json {
    Json::parse(json).unwrap()
}

fn compared(yaml: &str, json: &str) -> Result<FrontmatterMatch, FrontmatterMismatch> {
    compare(&file(yaml), &entry(json), FrontmatterPolicy::Readings)
}

fn strict(yaml: &str, json: &str) -> Result<FrontmatterMatch, FrontmatterMismatch> {
    compare(&file(yaml), &entry(json), FrontmatterPolicy::Strict)
}

/// Both policies accept it, with nothing to show.
#[track_caller]
fn assert_plain(yaml: &str, json: &str) {
    let found = compared(yaml, json);
    assert!(
        found.as_ref().is_ok_and(FrontmatterMatch::is_plain),
        "{yaml:?} {json}: {found:?}"
    );
    assert_eq!(strict(yaml, json), found);
}

/// It is accepted in `reading` with `tolerances`, and refused by a strict policy.
#[track_caller]
fn assert_accepted(yaml: &str, json: &str, reading: Reading, tolerances: &[Tolerance]) {
    let expected = FrontmatterMatch {
        reading,
        tolerances: tolerances.iter().copied().collect(),
    };
    assert!(!expected.is_plain());
    assert_eq!(compared(yaml, json), Ok(expected), "{yaml:?} {json}");
    assert!(strict(yaml, json).is_err(), "{yaml:?} {json} under a strict policy");
}

/// It is refused because `field` differs.
#[track_caller]
fn assert_differs(yaml: &str, json: &str, expected_field: &str, expected_type_only: bool) {
    match compared(yaml, json) {
        Err(FrontmatterMismatch::Differs { field, type_only, .. }) => {
            assert_eq!(
                (field.as_str(), type_only),
                (expected_field, expected_type_only),
                "{yaml:?} {json}"
            );
        }
        other => panic!("{yaml:?} {json}: {other:?}"),
    }
    assert!(strict(yaml, json).is_err());
}

#[track_caller]
fn refusal(yaml: &str) -> FrontmatterMismatch {
    let refused = compared(yaml, "{}").unwrap_err();
    assert_eq!(strict(yaml, "{}"), Err(refused.clone()));
    assert_eq!(read(&file(yaml)), Err(refused.clone()));
    refused
}

mod the_common_disagreements {
    use super::*;

    #[test]
    fn dates_are_texts_or_what_a_language_prints() {
        let yaml = "name: x\nmetadata:\n  updated: 2026-03-05\n";
        assert_plain(yaml, r#"{"name":"x","metadata":{"updated":"2026-03-05"}}"#);
        let with_time = r#"{"name":"x","metadata":{"updated":"2026-03-05T00:00:00.000Z"}}"#;
        assert_accepted(yaml, with_time, JAVASCRIPT, &[]);
        let Err(told) = strict(yaml, with_time) else {
            panic!("strict takes it")
        };
        assert_eq!(
            told.to_string(),
            "the field metadata.updated is rendered differently: \"2026-03-05T00:00:00.000Z\" in the entry, 2026-03-05 in \
             line 4 of the file"
        );
    }

    #[test]
    fn timestamps_of_python_are_isoformat() {
        let yaml = "stamp: 2026-03-05T00:00:00Z\nbeta: yes\n";
        assert_accepted(
            yaml,
            r#"{"stamp":"2026-03-05T00:00:00+00:00","beta":true}"#,
            PYYAML,
            &[],
        );
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert_plain("version: 1.0\n", r#"{"version":1}"#);
        assert_plain("version: 1.0\n", r#"{"version":1.0}"#);
        assert_plain("version: 1.10\n", r#"{"version":1.1}"#);
        assert_plain("version: 1.10\n", r#"{"version":11e-1}"#);
        assert_plain("version: 1e3\n", r#"{"version":1000}"#);
        assert_plain("zero: -0.0\n", r#"{"zero":0}"#);
        assert_plain(
            "big: 12345678901234567890123456789\n",
            r#"{"big":12345678901234567890123456789}"#,
        );
        assert_differs("n: 0.1\n", r#"{"n":0.1000000000000000055}"#, "n", false);
    }

    #[test]
    fn booleans_of_yaml_1_1_hold_for_the_file_as_a_whole() {
        let yaml = "beta: yes\nregion: no\n";
        assert_plain(yaml, r#"{"beta":"yes","region":"no"}"#);
        assert_accepted(yaml, r#"{"beta":true,"region":false}"#, PYYAML, &[]);
        assert_differs(yaml, r#"{"beta":true,"region":"no"}"#, "beta", true);
    }

    #[test]
    fn a_key_on_is_true_to_python() {
        assert_plain("on: push\n", r#"{"on":"push"}"#);
        assert_accepted("on: push\n", r#"{"true":"push"}"#, PYYAML, &[]);
        assert!(compared("on: push\nyes: pull\n", r#"{"true":"push"}"#).is_err());
        assert!(compared("on: push\n\"true\": pull\n", r#"{"true":"pull"}"#).is_err());
    }

    #[test]
    fn sexagesimal_and_octal_numbers_are_yaml_1_1() {
        assert_plain("at: 10:00\n", r#"{"at":"10:00"}"#);
        assert_accepted("at: 10:00\n", r#"{"at":600}"#, PYYAML, &[]);
        assert_plain("mode: 012\n", r#"{"mode":12}"#);
        assert_accepted("mode: 012\n", r#"{"mode":10}"#, PYYAML, &[]);
    }

    #[test]
    fn the_same_key_twice_is_refused_whichever_the_entry_shows() {
        let yaml = "description: harmless\nname: x\ndescription: harmful\n";
        for shown in ["harmless", "harmful"] {
            let refused = compared(yaml, &format!(r#"{{"name":"x","description":"{shown}"}}"#));
            assert_eq!(
                refused,
                Err(FrontmatterMismatch::DuplicateKey {
                    key: "description".to_owned(),
                    line: 4
                })
            );
        }
        refusal("license: A\n\"license\": B\n");
        assert!(matches!(
            refusal("metadata:\n  a: 1\n  a: 2\n"),
            FrontmatterMismatch::DuplicateKey { line: 4, .. }
        ));
    }

    #[test]
    fn a_byte_order_mark_is_read_through_once() {
        let bytes = b"\xef\xbb\xbf---\nname: bom-skill\ndescription: Starts with a mark\n---\n\nBody\n";
        assert_eq!(bytes.len(), 65);
        let json = entry(r#"{"name":"bom-skill","description":"Starts with a mark"}"#);
        assert!(compare(bytes, &json, FrontmatterPolicy::Strict).unwrap().is_plain());
        let twice = [b"\xef\xbb\xbf", &bytes[..]].concat();
        assert_eq!(
            compare(&twice, &json, FrontmatterPolicy::Readings),
            Err(FrontmatterMismatch::NoOpeningFence)
        );
        assert_plain("name: \"a\u{feff}b\"\n", "{\"name\":\"a\u{feff}b\"}");
    }

    #[test]
    fn merge_keys_are_merged_or_literal_but_never_both() {
        let yaml = "base: &b\n  k: v\nuse:\n  <<: *b\n  j: w\n";
        let merged = r#"{"base":{"k":"v"},"use":{"k":"v","j":"w"}}"#;
        let literal = r#"{"base":{"k":"v"},"use":{"<<":{"k":"v"},"j":"w"}}"#;
        assert_accepted(yaml, merged, Reading::Core12, &[Tolerance::MergeKeyMerged]);
        assert_accepted(yaml, literal, Reading::Core12, &[Tolerance::MergeKeyLiteral]);
        assert_eq!(strict(yaml, literal), Err(FrontmatterMismatch::MergeKey { line: 5 }));
        let wrong = r#"{"base":{"k":"v"},"use":{"k":"v","j":"other"}}"#;
        assert_differs(yaml, wrong, "use.j", false);
        let twice = "a: &a {k: v}\nb: {<<: *a}\nc: {<<: *a}\n";
        assert!(compared(twice, r#"{"a":{"k":"v"},"b":{"k":"v"},"c":{"<<":{"k":"v"}}}"#).is_err());
        assert_plain("a: {\"<<\": 1}\n", r#"{"a":{"<<":1}}"#);
    }

    #[test]
    fn merging_lets_the_own_field_win_and_then_the_first_source() {
        let yaml = "a: &a {k: 1, l: 1}\nb: &b {l: 2, m: 2, <<: *a}\nc: {<<: [*b, *a], m: 3}\n";
        assert_accepted(
            yaml,
            r#"{"a":{"k":1,"l":1},"b":{"l":2,"m":2,"k":1},"c":{"m":3,"l":2,"k":1}}"#,
            Reading::Core12,
            &[Tolerance::MergeKeyMerged],
        );
        assert_accepted("<<: 5\n", r#"{"<<":5}"#, Reading::Core12, &[Tolerance::MergeKeyLiteral]);
    }

    #[test]
    fn a_tab_may_follow_the_colon() {
        assert_plain(
            "description:\tTabbed\nname:\t\tx\n",
            r#"{"description":"Tabbed","name":"x"}"#,
        );
        assert_plain("m: {a:\t-1}\n", r#"{"m":{"a":-1}}"#);
        assert_plain(
            "a: 'x:\ty'\nb: |\n  x:\ty\nc: x:\ty\n"
                .replace("c: x:\ty\n", "")
                .as_str(),
            r#"{"a":"x:\ty","b":"x:\ty\n"}"#,
        );
        assert!(matches!(
            refusal("a:\tb: c\n"),
            FrontmatterMismatch::InvalidYaml { line: 2, .. }
        ));
        let many: String = (0..100).map(|at| format!("k{at}:\tv\n")).collect();
        assert!(matches!(refusal(&many), FrontmatterMismatch::InvalidYaml { .. }));
    }
}

mod what_real_servers_send {
    use super::*;

    const DATES: &str = "released: 2026-07-28\nstamp: 2026-07-28T10:00:00Z\nversion: 1.10\nbig: 12345678901234567890\n\
        octal: 012\noct2: 0o17\nhex: 0x1F\nyes-ish: yes\non-ish: on\nnothing: ~\nfloat: 1e3\nsexagesimal: 12:30:45\n\
        tags: [a, b]\nauthors:\n  - name: x\n    n: 1\n";

    #[test]
    fn the_typescript_servers_round_long_integers() {
        let sent = r#"{"released":"2026-07-28","stamp":"2026-07-28T10:00:00Z","version":1.1,"big":12345678901234567000,
            "octal":12,"oct2":15,"hex":31,"yes-ish":"yes","on-ish":"on","nothing":null,"float":1000,
            "sexagesimal":"12:30:45","tags":["a","b"],"authors":[{"name":"x","n":1}]}"#;
        assert_accepted(DATES, sent, Reading::Core12, &[Tolerance::IntegerThroughDouble]);
        assert_plain(DATES, &sent.replace("12345678901234567000", "12345678901234567890"));
        assert_differs(
            DATES,
            &sent.replace("12345678901234567000", "12345678901234567168"),
            "big",
            false,
        );
        assert_differs(DATES, &sent.replace("\"n\":1", "\"n\":2"), "authors[0].n", false);
    }

    #[test]
    fn python_reads_the_same_file_otherwise() {
        let sent = r#"{"released":"2026-07-28","stamp":"2026-07-28T10:00:00+00:00","version":1.1,
            "big":12345678901234567890,"octal":10,"oct2":"0o17","hex":31,"yes-ish":true,"on-ish":true,"nothing":null,
            "float":"1e3","sexagesimal":45045,"tags":["a","b"],"authors":[{"name":"x","n":1}]}"#;
        assert_accepted(DATES, sent, PYYAML, &[]);
        // One value from another reading is one too many.
        assert!(compared(DATES, &sent.replace("\"octal\":10", "\"octal\":12")).is_err());
    }

    #[test]
    fn gray_matter_and_js_yaml_4_have_their_own_mixtures() {
        let gray_matter = r#"{"released":"2026-07-28T00:00:00.000Z","stamp":"2026-07-28T10:00:00.000Z","version":1.1,
            "big":12345678901234567000,"octal":10,"oct2":"0o17","hex":31,"yes-ish":"yes","on-ish":"on","nothing":null,
            "float":1000,"sexagesimal":45045,"tags":["a","b"],"authors":[{"name":"x","n":1}]}"#;
        assert_accepted(DATES, gray_matter, JS_YAML_3, &[Tolerance::IntegerThroughDouble]);
        let js_yaml_4 = gray_matter
            .replace("\"octal\":10", "\"octal\":12")
            .replace("\"0o17\"", "15")
            .replace("45045", "\"12:30:45\"");
        assert_accepted(DATES, &js_yaml_4, JS_YAML_4, &[Tolerance::IntegerThroughDouble]);
    }

    #[test]
    fn a_reader_that_keeps_every_scalar_a_string_is_understood() {
        let yaml = "nothing: ~\nempty:\nversion: 1.10\nbeta: true\nquoted: \"7\"\n";
        let sent = r#"{"nothing":"~","empty":"","version":"1.10","beta":"true","quoted":"7"}"#;
        assert_accepted(yaml, sent, Reading::Strings, &[]);
    }

    #[test]
    fn one_leading_zero_kept_as_text_among_typed_values_is_no_reading() {
        let sent = r#"{"octal":"012","version":1.1}"#;
        assert_differs("octal: 012\nversion: 1.10\n", sent, "octal", true);
    }

    #[test]
    fn numbers_that_are_not_finite_may_be_null() {
        let yaml = "name: inf\nlimit: .inf\nnotnum: .nan\n";
        let sent = r#"{"name":"inf","limit":null,"notnum":null}"#;
        assert_accepted(yaml, sent, Reading::Core12, &[Tolerance::NonFiniteAsNull]);
        assert_differs("limit: 1\nname: x\n", r#"{"limit":null,"name":"x"}"#, "limit", false);
    }

    #[test]
    fn anchors_are_expanded() {
        assert_plain("base: &b {k: v}\nuse: *b\n", r#"{"base":{"k":"v"},"use":{"k":"v"}}"#);
    }

    #[test]
    fn the_last_block_scalar_may_lack_its_newline() {
        let yaml = "description: >-\n  two lines\n  folded\nnote: |\n  kept\n  lines\n";
        assert_plain(yaml, r#"{"description":"two lines folded","note":"kept\nlines\n"}"#);
        let cut = r#"{"description":"two lines folded","note":"kept\nlines"}"#;
        assert_accepted(yaml, cut, Reading::Core12, &[Tolerance::FinalNewlineOfLastBlockScalar]);
        // Only the last one, only a block, only one newline.
        assert_differs(
            "note: |\n  kept\nname: x\n",
            r#"{"note":"kept","name":"x"}"#,
            "note",
            false,
        );
        assert_differs("note: \"kept\\n\"\n", r#"{"note":"kept"}"#, "note", false);
        assert_differs("note: |+\n  kept\n\n", r#"{"note":"kept"}"#, "note", false);
        assert_differs("a: &a |\n  kept\nb: *a\n", r#"{"a":"kept","b":"kept"}"#, "a", false);
    }

    #[test]
    fn a_null_may_be_absent() {
        let absent = &[Tolerance::NullAgainstAbsent];
        assert_accepted("name: x\nlicense:\n", r#"{"name":"x"}"#, Reading::Core12, absent);
        assert_accepted("name: x\n", r#"{"name":"x","license":null}"#, Reading::Core12, absent);
        assert_accepted("m: {a: ~, b: 1}\n", r#"{"m":{"b":1}}"#, Reading::Core12, absent);
        assert_differs("name: x\nlicense: ''\n", r#"{"name":"x"}"#, "license", false);
        assert_differs("name: x\n", r#"{"name":"x","license":""}"#, "license", false);
    }

    #[test]
    fn members_have_no_order_and_items_have() {
        assert_plain("b: 1\na: 2\n", r#"{"a":2,"b":1}"#);
        assert_differs("tags: [a, b]\n", r#"{"tags":["b","a"]}"#, "tags[0]", false);
        assert_differs("tags: [a, b]\n", r#"{"tags":["a"]}"#, "tags", false);
    }

    #[test]
    fn version_1_10_as_text_is_a_discrepancy_of_its_own_field() {
        let yaml = "name: x\nmetadata:\n  version: 1.10\n  beta: true\n";
        assert_plain(yaml, r#"{"name":"x","metadata":{"version":1.1,"beta":true}}"#);
        assert_plain(yaml, r#"{"name":"x","metadata":{"version":1.10,"beta":true}}"#);
        assert_differs(
            yaml,
            r#"{"name":"x","metadata":{"version":"1.10","beta":true}}"#,
            "metadata.version",
            true,
        );
        let all_text = r#"{"name":"x","metadata":{"version":"1.10","beta":"true"}}"#;
        assert_accepted(yaml, all_text, Reading::Strings, &[]);
    }

    #[test]
    fn allowed_tools_keep_their_type() {
        for (yaml, json) in [
            ("Read, Write", r#""Read, Write""#),
            ("Read Write", r#""Read Write""#),
            ("[Read, Write]", r#"["Read","Write"]"#),
            ("Bash(git:*), Read", r#""Bash(git:*), Read""#),
            ("[Bash(git:*), Read]", r#"["Bash(git:*)","Read"]"#),
        ] {
            assert_plain(
                &format!("allowed-tools: {yaml}\n"),
                &format!(r#"{{"allowed-tools":{json}}}"#),
            );
        }
        assert_differs(
            "allowed-tools: Read Write\n",
            r#"{"allowed-tools":["Read","Write"]}"#,
            "allowed-tools",
            false,
        );
        assert_differs(
            "allowed-tools: [Read]\n",
            r#"{"allowed-tools":"Read"}"#,
            "allowed-tools",
            false,
        );
    }
}

mod fences {
    use super::*;

    fn found(file: impl AsRef<[u8]>, json: &str) -> Result<bool, FrontmatterMismatch> {
        compare(file.as_ref(), &entry(json), FrontmatterPolicy::Strict).map(|found| found.is_plain())
    }

    #[test]
    fn crlf_is_read_through() {
        let bytes = b"---\r\nname: crlf-skill\r\ndescription: Windows lines\r\n---\r\n\r\nBody\r\n";
        assert_eq!(bytes.len(), 64);
        assert_eq!(
            found(bytes, r#"{"name":"crlf-skill","description":"Windows lines"}"#),
            Ok(true)
        );
    }

    #[test]
    fn block_scalars_have_the_same_value_under_crlf() {
        for yaml in [
            "a: >\n  one\n  two\n\n  three\n   more\nb: x\n",
            "a: |\n  one\n\n  two\nb: x\n",
            "a: |+\n  one\n\nb: x\n",
            "a: >-\n  one\n  two\nb: x\n",
            "a: \"one\n  two\n\n  three\"\nb: 'x\n  y'\n",
            "a: one\n  two\nb: x\n",
        ] {
            let with_crlf = String::from_utf8(file(yaml)).unwrap().replace('\n', "\r\n");
            assert_eq!(read(with_crlf.as_bytes()), read(&file(yaml)), "{yaml:?}");
            assert!(read(with_crlf.as_bytes()).is_ok(), "{yaml:?}");
        }
    }

    #[test]
    fn blanks_after_the_fences_are_read_through() {
        assert_eq!(found("---  \nname: x\n---  \nbody\n", r#"{"name":"x"}"#), Ok(true));
        assert_eq!(found("---\t \nname: x\n---\t\r\nbody\n", r#"{"name":"x"}"#), Ok(true));
        assert_eq!(found("---\nname: x\n---", r#"{"name":"x"}"#), Ok(true));
    }

    #[test]
    fn a_file_without_fences_says_which_is_missing() {
        for text in [
            "",
            "# no frontmatter\n",
            " ---\nname: x\n---\n",
            "----\na: b\n---\n",
            "--- a: b\n---\n",
            "\n---\na: b\n---\n",
        ] {
            assert_eq!(found(text, "{}"), Err(FrontmatterMismatch::NoOpeningFence), "{text:?}");
        }
        for text in [
            "---",
            "---\n",
            "---\nname: x\n",
            "---\nname: x\n...\nbody\n",
            "---\nname: x\n ---\n",
            "---\nname: x\n----\n",
        ] {
            assert_eq!(found(text, "{}"), Err(FrontmatterMismatch::NotClosed), "{text:?}");
        }
    }

    #[test]
    fn dashes_inside_a_value_end_nothing() {
        assert_plain("a: |\n  x\n  ---\n  y\n", r#"{"a":"x\n---\ny\n"}"#);
        assert_plain(
            "a: \"x\n  ---\n  y\"\nb: one --- two\n",
            r#"{"a":"x --- y","b":"one --- two"}"#,
        );
        assert_plain("a: '---'\n", r#"{"a":"---"}"#);
        assert_plain("a: x\n ---\n", r#"{"a":"x ---"}"#);
    }

    #[test]
    fn a_quoted_value_that_is_open_at_the_fence_is_invalid_and_says_why() {
        let refused = refusal("a: \"x\n---\ny\"\n");
        let FrontmatterMismatch::InvalidYaml {
            line: 2,
            column: 4,
            field,
            problem,
        } = &refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!(field.as_deref(), Some("a"));
        assert!(
            problem.contains("quoted scalar") && problem.contains("document indicator"),
            "{problem}"
        );
    }

    #[test]
    fn a_block_scalar_ends_at_the_fence() {
        assert_plain("a: |\n  x\n---\n  y\n", r#"{"a":"x\n"}"#);
    }

    #[test]
    fn the_body_is_not_looked_at() {
        for body in [
            &b"\xff\xfe\n"[..],
            b"\0",
            b"a: b: c\n---\n",
            b"---\nname: y\n---\n",
            b"- [\"",
            b"\x1b[0m",
        ] {
            let bytes = [b"---\nname: x\n---\n", body].concat();
            assert_eq!(found(&bytes, r#"{"name":"x"}"#), Ok(true), "{body:?}");
        }
    }

    #[test]
    fn one_document_stands_between_the_fences() {
        for yaml in [
            "a: b\n--- c\n",
            "a: b\n--- # comment\n",
            "a: b\n...\nc: d\n",
            "a: b\n...\n%YAML 1.2\n",
            "a: b\n--- {c: d}\n",
            "a: b\r---\rc: d\n",
        ] {
            assert!(
                matches!(refusal(yaml), FrontmatterMismatch::SeveralDocuments { .. }),
                "{yaml:?}: {}",
                refusal(yaml)
            );
        }
        assert_plain("a: b\n...\n\n# nothing\n", r#"{"a":"b"}"#);
        assert_plain("a: b\n... # end\n", r#"{"a":"b"}"#);
        assert_plain("a: ...b\nc: ..\n", r#"{"a":"...b","c":".."}"#);
    }

    #[test]
    fn only_a_mapping_is_frontmatter() {
        for yaml in ["", "# nothing\n", "- a\n", "text\n", "null\n", "...\n"] {
            assert_eq!(refusal(yaml), FrontmatterMismatch::NotAMapping, "{yaml:?}");
        }
        assert_plain("{}\n", "{}");
    }

    #[test]
    fn directives_are_refused() {
        assert!(matches!(
            refusal("%YAML 1.1\na: b\n"),
            FrontmatterMismatch::InvalidYaml { line: 2, .. }
        ));
    }

    #[test]
    fn bytes_that_yaml_allows_nowhere_are_refused() {
        assert_eq!(
            found(b"---\na: b\nc: \xff\n---\n", "{}"),
            Err(FrontmatterMismatch::NotUtf8 { line: 3 })
        );
        for byte in [0, 7, 0x1b] {
            assert_eq!(
                found([b"---\na: \"", &[byte][..], b"\"\n---\n"].concat(), "{}"),
                Err(FrontmatterMismatch::ControlCharacter { line: 2 })
            );
        }
    }

    #[test]
    fn the_size_is_bounded_exactly() {
        let padding = "#".repeat(MAX_FRONTMATTER_BYTES - "\na: b\n".len());
        assert_eq!(found(file(&format!("{padding}\na: b\n")), r#"{"a":"b"}"#), Ok(true));
        assert_eq!(refusal(&format!("{padding}#\na: b\n")), FrontmatterMismatch::TooLarge);
        let endless = "---\n".to_owned() + &"a\n".repeat(MAX_FRONTMATTER_BYTES);
        assert_eq!(found(endless, "{}"), Err(FrontmatterMismatch::TooLarge));
    }
}

mod hopeless_yaml {
    use super::*;

    #[test]
    fn says_line_column_and_field() {
        for (value, column) in [
            ("Make it ready: errors", 27),
            ("[action] - e.g. list", 23),
            ("@team use", 14),
            ("`code` first", 14),
            ("%x", 14),
        ] {
            let yaml = format!("name: x\ndescription: {value}\nlicense: MIT\n");
            let refused = refusal(&yaml);
            let FrontmatterMismatch::InvalidYaml {
                line,
                column: found,
                field,
                ..
            } = &refused
            else {
                panic!("{yaml:?}: {refused:?}")
            };
            assert_eq!(
                (*line, *found, field.as_deref()),
                (3, column, Some("description")),
                "{refused}"
            );
        }
        assert_eq!(
            refusal("description: a: b\n").to_string(),
            "the frontmatter is not valid YAML, line 2 column 15, field description (quote the value?): mapping values are \
             not allowed in this context"
        );
    }

    #[test]
    fn keys_that_are_no_strings_are_refused() {
        for yaml in [
            "1: a\n",
            "true: a\n",
            "~: a\n",
            ": a\n",
            "1.5: a\n",
            "? [a]\n: b\n",
            "? {a: b}\n: c\n",
            "m: {.inf: 1}\n",
        ] {
            assert_eq!(refusal(yaml), FrontmatterMismatch::NonStringKey { line: 2 }, "{yaml:?}");
        }
        assert_plain("\"1\": a\n!!str 2: b\n'': c\n", r#"{"1":"a","2":"b","":"c"}"#);
        assert_plain("a: &k name\n*k : b\n", r#"{"a":"name","name":"b"}"#);
    }

    #[test]
    fn core_tags_are_resolved_and_others_refused() {
        assert_plain(
            "a: !!str 1\nb: !!int \"2\"\nc: !!float 3\nd: !!bool 'true'\ne: !!null ''\nf: ! 4\ng: !!map {h: !!seq [x]}\n\
             i: !<tag:yaml.org,2002:int> 0x10\nj: !!str\n",
            r#"{"a":"1","b":2,"c":3,"d":true,"e":null,"f":"4","g":{"h":["x"]},"i":16,"j":""}"#,
        );
        for yaml in [
            "a: !foo 1\n",
            "a: !!timestamp 2026-01-01\n",
            "a: !!binary aGk=\n",
            "a: !!set {b}\n",
            "a: !!map [b]\n",
            "a: !!str [b]\n",
        ] {
            assert!(
                matches!(refusal(yaml), FrontmatterMismatch::UnknownTag { line: 2, .. }),
                "{yaml:?}"
            );
        }
        assert!(matches!(
            read(&file("a: !!int x\n")),
            Err(FrontmatterMismatch::Unrepresentable { line: 2, .. })
        ));
        assert!(compared("a: !!int x\nb: true\n", r#"{"a":"x","b":true}"#).is_err());
    }
}

mod bombs {
    use super::*;

    fn bound(yaml: &str) -> FrontmatterBound {
        let refused = refusal(yaml);
        let FrontmatterMismatch::Bomb { bound, .. } = refused else {
            panic!("{refused:?}")
        };
        bound
    }

    #[test]
    fn an_alias_bomb_is_refused_as_it_grows() {
        let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..=8 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            yaml.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert_eq!(bound(&yaml), FrontmatterBound::Nodes);
    }

    #[test]
    fn one_long_text_named_often_is_refused() {
        let yaml = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 20].join(", "));
        assert_eq!(bound(&yaml), FrontmatterBound::Bytes);
    }

    #[test]
    fn nesting_is_bounded_exactly_also_by_aliases() {
        let nested = |levels: usize| format!("a: {}{}\n", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&file(&nested(MAX_FRONTMATTER_DEPTH - 1))).is_ok());
        assert_eq!(bound(&nested(MAX_FRONTMATTER_DEPTH)), FrontmatterBound::Depth);
        // Here the parser itself stops, before it gives an event.
        assert!(matches!(
            refusal(&nested(100_000)),
            FrontmatterMismatch::InvalidYaml { line: 2, .. }
        ));
        assert_eq!(
            bound(&format!("a:\n  {}x\n", "- ".repeat(100_000))),
            FrontmatterBound::Depth
        );
        let half = MAX_FRONTMATTER_DEPTH / 2;
        let chain = |levels: usize| {
            let open = "[".repeat(levels);
            let close = "]".repeat(levels);
            format!("a: &a {}x{}\nb: {open}*a{close}\n", "[".repeat(half), "]".repeat(half))
        };
        assert!(read(&file(&chain(half - 1))).is_ok());
        assert_eq!(bound(&chain(half)), FrontmatterBound::Depth);
    }

    #[test]
    fn an_alias_inside_its_own_anchor_is_refused() {
        assert_eq!(bound("a: &a [*a]\n"), FrontmatterBound::Recursion);
        assert_eq!(bound("a: &a {b: *a}\n"), FrontmatterBound::Recursion);
    }

    #[test]
    fn huge_exponents_cost_nothing_and_equal_themselves_alone() {
        assert_plain("n: 1e999999999\n", r#"{"n":10e999999998}"#);
        assert_differs("n: 1e999999999\n", r#"{"n":1e999999998}"#, "n", false);
        let beyond = "9".repeat(30);
        assert!(
            compared(
                &format!("n: 1e{beyond}\nb: true\n"),
                &format!(r#"{{"n":1e{beyond},"b":true}}"#)
            )
            .is_err()
        );
        assert_plain(&format!("n: 1e{}2\n", "0".repeat(30)), r#"{"n":100}"#);
    }
}

#[test]
fn differences_of_content_are_told_before_those_of_type() {
    let yaml = "metadata:\n  version: 1.10\ndescription: harmful\nbeta: true\n";
    let sent = r#"{"metadata":{"version":"1.10"},"description":"harmless","beta":true}"#;
    assert_differs(yaml, sent, "description", false);
}

#[test]
fn fields_on_one_side_only_are_named_with_their_path() {
    assert_differs(
        "metadata: {a: 1, b: 2}\n",
        r#"{"metadata":{"a":1}}"#,
        "metadata.b",
        false,
    );
    assert_differs(
        "metadata: {a: 1}\n",
        r#"{"metadata":{"a":1,"io.x/y":"z"}}"#,
        "metadata.\"io.x/y\"",
        false,
    );
    assert_differs("a: {b: 1}\n", r#"{"a":"b"}"#, "a", false);
}

#[test]
fn what_is_shown_is_bounded_and_printable_and_shows_the_difference() {
    let same = "y".repeat(1000);
    let yaml = format!("description: {same}harmful \u{202e}{same}\n");
    let Err(told) = compared(&yaml, &format!(r#"{{"description":"{same}harmless"}}"#)) else {
        panic!("accepted")
    };
    let text = told.to_string();
    assert!(
        text.contains("yyyharmless\"") && text.contains("yyyharmful \\u{202e}yyy"),
        "{text}"
    );
    assert!(text.chars().count() < 400 && !text.contains('\u{202e}'), "{text}");
    let key = "k".repeat(5000);
    let Err(told) = compared(&format!("? {key}\n: 1\n"), "{}") else {
        panic!("accepted")
    };
    assert!(told.to_string().chars().count() < 400);
}

#[test]
fn a_match_says_what_it_needed() {
    let found = compared(
        "n: 12345678901234567890\nx: .inf\n",
        r#"{"n":12345678901234567000,"x":null}"#,
    )
    .unwrap();
    assert_eq!(
        found.to_string(),
        "the frontmatter equals the entry as YAML 1.2, but that a number that is not finite is null and a long integer is \
         rounded to a double"
    );
}

#[test]
fn reading_keeps_the_texts_of_numbers_and_the_order_of_fields() {
    let read = read(&file("b: 1.10\na: 0x1F\nc: +.5\nd: 012\ne: 1.\nf: .nan\ng: [yes, ~]\n")).unwrap();
    assert_eq!(
        read,
        entry(r#"{"b":1.10,"a":31,"c":5e-1,"d":12,"e":1,"f":null,"g":["yes",null]}"#)
    );
}

/// A plain scalar, and what PyYAML 6.0.3, js-yaml 3.14.1 and js-yaml 4.1.0 print for it as JSON; `=` where that is the
/// scalar's own text.
const AS_PARSERS_PRINT: &str = r#"
yes | true | = | =
Off | false | = | =
y | = | = | =
yEs | = | = | =
TRUE | true | true | true
tRue | = | = | =
~ | null | null | null
nULL | = | = | =
-012 | -10 | -10 | -12
+012 | 10 | 10 | 12
08 | = | = | 8
0o17 | = | = | 15
0x1F | 31 | 31 | 31
0X1F | = | = | =
-0x1F | -31 | -31 | -31
0b101 | 5 | 5 | 5
0b2 | = | = | =
0x | = | = | =
1_000 | 1000 | 1000 | 1000
1_ | 1 | = | =
_1 | = | = | =
0_7 | 7 | 7 | 7
00 | 0 | 0 | 0
00:30 | = | = | =
12:30:45 | 45045 | 45045 | =
-1:30 | -90 | -90 | =
1:99 | = | = | =
190:20:30 | 685230 | 685230 | =
20:30.15 | 1230.15 | 1230.15 | =
1. | 1.0 | 1 | 1
-.5 | = | = | =
+.5 | = | = | =
.5 | 0.5 | 0.5 | 0.5
. | = | = | =
1e3 | = | 1000 | 1000
1e+3 | = | 1000 | 1000
1.5e3 | = | 1500 | 1500
1.5e+3 | 1500.0 | 1500 | 1500
1.5E-2 | 0.015 | 0.015 | 0.015
1_0.5 | 10.5 | 10.5 | 10.5
._5 | = | 0.5 | 0.5
1.5_ | 1.5 | = | =
012.5 | 12.5 | = | 12.5
1e | = | = | =
.Nan | = | = | =
inf | = | = | =
2026-03-05 | = | "2026-03-05T00:00:00.000Z" | "2026-03-05T00:00:00.000Z"
2026-3-5 | = | = | =
2026-02-30 | error | "2026-03-02T00:00:00.000Z" | "2026-03-02T00:00:00.000Z"
2026-07-28t10:00:00.5Z | "2026-07-28T10:00:00.500000+00:00" | "2026-07-28T10:00:00.500Z" | "2026-07-28T10:00:00.500Z"
2026-07-28 10:00:00 | "2026-07-28T10:00:00" | "2026-07-28T10:00:00.000Z" | "2026-07-28T10:00:00.000Z"
2026-07-28 10:00:00 +02:00 | "2026-07-28T10:00:00+02:00" | "2026-07-28T08:00:00.000Z" | "2026-07-28T08:00:00.000Z"
2026-07-28T10:00:00.1234567+02:30 | "2026-07-28T10:00:00.123456+02:30" | "2026-07-28T07:30:00.123Z" | "2026-07-28T07:30:00.123Z"
2026-12-31T23:30:00-01:00 | "2026-12-31T23:30:00-01:00" | "2027-01-01T00:30:00.000Z" | "2027-01-01T00:30:00.000Z"
2026-7-8T1:00:00-5 | "2026-07-08T01:00:00-05:00" | "2026-07-08T06:00:00.000Z" | "2026-07-08T06:00:00.000Z"
2026-07-28T10:00Z | = | = | =
2026-07-28T10:00:00+0200 | = | = | =
2024-02-29 | = | "2024-02-29T00:00:00.000Z" | "2024-02-29T00:00:00.000Z"
2023-02-29 | error | "2023-03-01T00:00:00.000Z" | "2023-03-01T00:00:00.000Z"
"#;

#[test]
fn scalars_are_what_real_parsers_make_of_them() {
    let mut rows = 0;
    for row in AS_PARSERS_PRINT.trim().lines() {
        let mut cells = row.split(" | ");
        let text = cells.next().unwrap();
        let document = yaml::parse(&format!("---\nk: {text}\n---")).unwrap();
        for reading in [PYYAML, JS_YAML_3, JS_YAML_4] {
            let value = match cells.next().unwrap() {
                "=" => Json::String(text.to_owned()),
                "error" => {
                    assert_nothing_equals(&document, text, reading);
                    continue;
                }
                json => entry(json),
            };
            let value = Json::Object(vec![("k".to_owned(), value)]);
            let outcome = compare::compare(
                &document,
                &value,
                View {
                    reading,
                    merging: false,
                    tolerant: false,
                },
            );
            assert!(matches!(outcome, Outcome::Equal(_)), "{row}: as {reading}");
        }
        rows += 1;
    }
    assert_eq!(rows, 59);
}

fn assert_nothing_equals(document: &Document, text: &str, reading: Reading) {
    let value = Json::Object(vec![("k".to_owned(), Json::String(text.to_owned()))]);
    let outcome = compare::compare(
        document,
        &value,
        View {
            reading,
            merging: false,
            tolerant: true,
        },
    );
    assert!(matches!(outcome, Outcome::Differs(..)), "{text} as {reading}");
}

#[test]
fn calendar_days_survive_the_way_through_javascript() {
    for (text, printed) in [
        ("0100-01-01", "0100-01-01T00:00:00.000Z"),
        ("1900-02-28", "1900-02-28T00:00:00.000Z"),
        ("1900-02-29", "1900-03-01T00:00:00.000Z"),
        ("2000-02-29", "2000-02-29T00:00:00.000Z"),
        ("2100-12-31", "2100-12-31T00:00:00.000Z"),
        ("9999-12-31", "9999-12-31T00:00:00.000Z"),
    ] {
        assert_eq!(
            timestamp::Timestamp::parse(text).unwrap().javascript().as_deref(),
            Some(printed)
        );
    }
}

/// Pieces that YAML is made of, and pieces that break it.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "name: x\n", "a: |\n  b\n", "c: >-\n  d\n  e\n", "f: [1, 2]\n", "g: {h: i}\n", "j: &k l\n", "m: *k\n", "n:\n  - o\n",
            "---\n", "...\n", "--- ", "\n", "\r\n", "\r", "\t", "  ", ": ", "- ", "? ", "[", "]", "{", "}", ",", "\"", "'", "|", ">",
            "&a ", "*a", "!!str ", "!", "#", "%", "@", "<<: ", "~", "\u{feff}", "1e9", "2026-01-01", "\\", "\\x", "é", "a:\tb\n",
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}

fn any_scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?(e-?[0-9]{1,2})?".prop_map(Json::Number),
        any::<String>().prop_map(Json::String),
    ]
}

fn any_value() -> impl Strategy<Value = Json> {
    any_scalar().prop_recursive(3, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map("[a-z][a-z0-9.-]{0,6}", inner, 0..6).prop_map(|members| Json::Object(
                members
                    .into_iter()
                    .map(|(key, value)| (format!("k{key}"), value))
                    .collect()
            )),
        ]
    })
}

fn any_mapping() -> impl Strategy<Value = Json> {
    prop::collection::btree_map("[a-z]{1,8}", any_value(), 0..6).prop_map(|members| {
        Json::Object(
            members
                .into_iter()
                .map(|(key, value)| (format!("k{key}"), value))
                .collect(),
        )
    })
}

proptest! {
    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _judged = compare(&bytes, &Json::Null, FrontmatterPolicy::Readings);
        let fenced = [b"---\n", &bytes[..], b"\n---\n"].concat();
        let _judged = compare(&fenced, &Json::Null, FrontmatterPolicy::Readings);
    }

    #[test]
    fn any_mixture_of_yaml_is_judged_and_what_is_read_equals_itself(pieces in prop::collection::vec(piece(), 0..40)) {
        let bytes = file(&(pieces.concat() + "\n"));
        if let Ok(json) = read(&bytes) {
            let found = compare(&bytes, &json, FrontmatterPolicy::Readings);
            prop_assert_eq!(found.map(|found| found.reading), Ok(Reading::Core12));
        }
    }

    #[test]
    fn mutations_of_good_frontmatter_are_judged(at in 0_usize..200, with in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = file("name: x\ndescription: >-\n  one\n  two\nmetadata:\n  version: \"1.0\"\n  tags: [a, b]\nbase: &b {k: v}\nuse: {<<: *b}\nnote: |\n  kept\n");
        let at = at % bytes.len();
        if cut { bytes.remove(at); } else { bytes[at] = with; }
        let _judged = compare(&bytes, &Json::Object(Vec::new()), FrontmatterPolicy::Readings);
    }

    #[test]
    fn json_is_yaml_and_equals_itself(json in any_mapping()) {
        let text = json.canonical();
        let bytes = file(&format!("{text}\n"));
        let found = compare(&bytes, &json, FrontmatterPolicy::Strict);
        prop_assert!(found.as_ref().is_ok_and(FrontmatterMatch::is_plain), "{}: {:?}", text, found);
        prop_assert_eq!(read(&bytes).map(|read| read.canonical()), Ok(text));
    }

    #[test]
    fn a_changed_text_is_never_equal(text in "[a-z ]{1,30}", other in "[a-z ]{1,30}") {
        prop_assume!(text != other);
        let yaml = format!("description: \"{text}\"\n");
        let sent = format!("{{\"description\":\"{other}\"}}");
        prop_assert!(compared(&yaml, &sent).is_err());
    }

    #[test]
    fn decimals_have_one_form(digits in "[1-9][0-9]{0,30}", zeros in 0_usize..20, shift in 0_i64..50) {
        let plain = number::Decimal::parse(&digits);
        let padded = format!("{}{digits}.{}", "0".repeat(zeros), "0".repeat(zeros));
        prop_assert_eq!(number::Decimal::parse(&padded), plain.clone());
        let shifted = format!("{digits}{}e-{shift}", "0".repeat(usize::try_from(shift).unwrap()));
        prop_assert_eq!(number::Decimal::parse(&shifted), plain.clone());
        prop_assert_ne!(number::Decimal::parse(&format!("-{digits}")), plain.clone());
        prop_assert_eq!(number::Decimal::parse(&plain.clone().unwrap().to_json()), plain);
    }
}
