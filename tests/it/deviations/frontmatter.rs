//! Frontmatter as real servers parse it. The entry must equal one reading of the file as a whole, up to a closed list of
//! tolerances; what needed more than YAML 1.2 is served with a finding, and not at all where the operator is strict.

use serde_json::json;

use super::findings;
use crate::support::gateway::Setup;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

/// What becomes of a skill.
enum Verdict {
    /// It is served, and there is nothing to say.
    Plain,
    /// It is served with a finding that ends so, and refused where the operator is strict.
    Finding(&'static str),
    /// It is refused with words that hold these.
    Refused(&'static str),
}

use Verdict::Finding;
use Verdict::Plain;
use Verdict::Refused;

/// A skill whose file has these lines of YAML below name and description, and whose entry has these members beside them.
struct Case {
    name: &'static str,
    yaml: &'static str,
    entry: &'static str,
    verdict: Verdict,
}

const fn case(name: &'static str, yaml: &'static str, entry: &'static str, verdict: Verdict) -> Case {
    Case {
        name,
        yaml,
        entry,
        verdict,
    }
}

/// What one file of many types becomes with the readers that are in use.
const DATES: &str = "released: 2026-07-28\nstamp: 2026-07-28T10:00:00Z\noctal: 012\nyes-ish: yes\non-ish: on\nat: 12:30:45\nversion: 1.10\n";

/// The same as the TypeScript SDK, olaservo and nimblebrain list it.
const AS_TYPESCRIPT: &str = r#""released":"2026-07-28","stamp":"2026-07-28T10:00:00Z","octal":12,"yes-ish":"yes","on-ish":"on","at":"12:30:45","version":1.1"#;

/// As PyYAML reads it.
const AS_PYTHON: &str = r#""released":"2026-07-28","stamp":"2026-07-28T10:00:00+00:00","octal":10,"yes-ish":true,"on-ish":true,"at":45045,"version":1.1"#;

/// As rmcp lists it: only a leading zero makes a text of the number.
const AS_RMCP: &str = r#""released":"2026-07-28","stamp":"2026-07-28T10:00:00Z","octal":"012","yes-ish":"yes","on-ish":"on","at":"12:30:45","version":1.1"#;

/// A number whose text says more than its value.
const VERSION: &str = "metadata:\n  version: 1.10\n  beta: true\n";

/// A merge key.
const MERGE: &str = "base: &b\n  k: v\nuse:\n  <<: *b\n  j: w\n";

/// Values that parsers read in different ways.
const VALUES: [Case; 14] = [
    // deviation 8, deviation 9: the same file as four parsers list it; case I1, case I5.
    case("typescript", DATES, AS_TYPESCRIPT, Plain),
    case(
        "python",
        DATES,
        AS_PYTHON,
        Finding("as YAML 1.1 with Python's timestamps"),
    ),
    case(
        "rmcp",
        DATES,
        AS_RMCP,
        Refused("the field octal is rendered differently: \"012\" in the entry, 012 in line 6"),
    ),
    case(
        "js-dates",
        "metadata:\n  updated: 2026-03-05\n",
        r#""metadata":{"updated":"2026-03-05T00:00:00.000Z"}"#,
        Finding("as YAML 1.1 with JavaScript's timestamps"),
    ),
    case(
        "strings",
        "beta: true\nempty:\n",
        r#""beta":"true","empty":"""#,
        Finding("with every value a string"),
    ),
    case(
        "mixture",
        "beta: yes\nregion: no\n",
        r#""beta":true,"region":"no""#,
        Refused("the field beta is rendered differently: true in the entry, yes in line 4"),
    ),
    // deviation 10: numbers by value, and integers that went through a double; case I6.
    case("short", VERSION, r#""metadata":{"version":1.1,"beta":true}"#, Plain),
    case("long", VERSION, r#""metadata":{"version":1.10,"beta":true}"#, Plain),
    case(
        "text",
        VERSION,
        r#""metadata":{"version":"1.10","beta":true}"#,
        Refused("the field metadata.version is rendered differently: \"1.10\" in the entry, 1.10 in line 5"),
    ),
    case(
        "big",
        "big: 12345678901234567890\n",
        r#""big":12345678901234567890"#,
        Plain,
    ),
    case(
        "rounded",
        "big: 12345678901234567890\n",
        r#""big":12345678901234567000"#,
        Finding("but that a long integer is rounded to a double"),
    ),
    // deviation 11.
    case(
        "infinite",
        "limit: .inf\nnotnum: .nan\n",
        r#""limit":null,"notnum":null"#,
        Finding("but that a number that is not finite is null"),
    ),
    // deviation 16: rmcp sorts the members.
    case("sorted", "zone: a\nauthor: b\n", r#""author":"b","zone":"a""#, Plain),
    // The extension's own suite takes null for absent.
    case("absent", "license:\n", "", Finding("but that an empty field is absent")),
];

/// Keys, anchors, blocks and lists.
const SHAPES: [Case; 11] = [
    // deviation 12: whichever of the two the entry shows; case I7.
    case(
        "first",
        "note: a\nnote: b\n",
        r#""note":"a""#,
        Refused("the key note stands a second time in line 5"),
    ),
    case(
        "last",
        "note: a\nnote: b\n",
        r#""note":"b""#,
        Refused("the key note stands a second time in line 5"),
    ),
    case(
        "inner",
        "m:\n  a: 1\n  a: 2\n",
        r#""m":{"a":2}"#,
        Refused("the key a stands a second time in line 6"),
    ),
    // deviation 13.
    case(
        "anchor",
        "base: &b {k: v}\nuse: *b\n",
        r#""base":{"k":"v"},"use":{"k":"v"}"#,
        Plain,
    ),
    case(
        "merged",
        MERGE,
        r#""base":{"k":"v"},"use":{"k":"v","j":"w"}"#,
        Finding("but that << is merged"),
    ),
    case(
        "literal",
        MERGE,
        r#""base":{"k":"v"},"use":{"<<":{"k":"v"},"j":"w"}"#,
        Finding("but that << is taken for a key"),
    ),
    // deviation 14: fastmcp and nimblebrain cut the newline off.
    case(
        "block",
        "note: |\n  kept\n  lines\n",
        r#""note":"kept\nlines\n""#,
        Plain,
    ),
    case(
        "cut",
        "note: |\n  kept\n  lines\n",
        r#""note":"kept\nlines""#,
        Finding("but that the last block lacks its final newline"),
    ),
    // case I8: text and list are not the same, and neither is touched.
    case(
        "tools",
        "allowed-tools: Bash(git:*), Read\n",
        r#""allowed-tools":"Bash(git:*), Read""#,
        Plain,
    ),
    case(
        "list",
        "allowed-tools: [Bash(git:*), Read]\n",
        r#""allowed-tools":["Bash(git:*)","Read"]"#,
        Plain,
    ),
    case(
        "as-text",
        "allowed-tools: [Read, Write]\n",
        r#""allowed-tools":"Read, Write""#,
        Refused("the field allowed-tools differs: \"Read, Write\" in the entry, a list of 2 in line 4"),
    ),
];

/// What authors write without quotes.
const MISTAKES: [Case; 6] = [
    // case I3, case I12: the commonest mistake in the field says where it stands and what mends it.
    case(
        "colon",
        "hint: Make it ready: errors\n",
        r#""hint":"Make it ready: errors""#,
        Refused("line 4 column 20, field hint (quote the value?)"),
    ),
    case(
        "at-sign",
        "hint: @team use\n",
        r#""hint":"@team use""#,
        Refused("field hint (quote the value?)"),
    ),
    case(
        "backtick",
        "hint: `x` it\n",
        r#""hint":"`x` it""#,
        Refused("field hint (quote the value?)"),
    ),
    case(
        "percent",
        "hint: %x\n",
        r#""hint":"%x""#,
        Refused("field hint (quote the value?)"),
    ),
    case(
        "bracket",
        "hint: [action] - e.g. list\n",
        r#""hint":"[action] - e.g. list""#,
        Refused("is not valid YAML, line 4"),
    ),
    // case I10: the first line that is only dashes closes the block.
    case(
        "open",
        "hint: \"x\n---\ny\"\n",
        r#""hint":"x --- y""#,
        Refused("is not valid YAML"),
    ),
];

/// Serves all cases under two policies, and checks each verdict under both.
async fn check(cases: &[Case]) {
    let origin = Origin::with(cases.iter().map(Case::skill));
    for policy in ["readings", "strict"] {
        let settings = format!("refresh = \"1s\"\nfrontmatter = \"{policy}\"");
        let gateway = Setup::new().origin_with("acme", &origin, &settings).start().await;
        let host = gateway.host();
        gateway.approve_all("acme", cases.len()).await;
        for case in cases {
            let skill = format!("acme/{}", case.name);
            let answer = host.read(&format!("skill://{skill}/SKILL.md")).await;
            match (&case.verdict, policy) {
                (Plain, _) => {
                    assert_eq!(answer.bytes(), case.skill().bytes("SKILL.md"), "{skill}");
                    assert_eq!(findings(&gateway, &skill).await, [""; 0], "{skill}");
                }
                (Finding(ending), "readings") => {
                    assert_eq!(answer.bytes(), case.skill().bytes("SKILL.md"), "{skill}");
                    let found = findings(&gateway, &skill).await;
                    let [finding] = found.as_slice() else {
                        panic!("{skill}: one finding, not {found:?}")
                    };
                    assert!(finding.ends_with(ending), "{skill}: {finding}");
                }
                (Finding(_) | Refused(_), _) => {
                    assert_eq!(answer.refusal(-32603)["dev.portcullis/reason"], "mismatch", "{skill}");
                    let words = answer.json["error"]["message"].as_str().unwrap();
                    if let Refused(wanted) = case.verdict {
                        assert!(words.contains(wanted), "{skill}: {words}");
                    }
                }
            }
        }
        gateway.finish().await;
    }
}

impl Case {
    fn skill(&self) -> Skill {
        let Self { name, yaml, entry, .. } = self;
        let members = if entry.is_empty() {
            String::new()
        } else {
            format!(",{entry}")
        };
        Skill::at(&format!("skill://{name}/SKILL.md"))
            .with_frontmatter(&format!(
                r#"{{"name":"{name}","description":"What it is for."{members}}}"#
            ))
            .with_skill_file(format!(
                "---\nname: {name}\ndescription: What it is for.\n{yaml}---\n\n# Steps\n"
            ))
    }
}

#[tokio::test]
async fn each_yaml_dialect_is_one_reading_and_a_mixture_is_none() {
    check(&VALUES).await;
}

#[tokio::test]
async fn keys_anchors_and_blocks_are_read_in_one_way_or_the_reviewer_is_told() {
    check(&SHAPES).await;
}

#[tokio::test]
async fn yaml_that_is_none_is_refused_with_line_column_field_and_cure() {
    check(&MISTAKES).await;
}

#[tokio::test]
async fn marks_line_ends_and_blanks_are_read_through_and_never_touched() {
    // deviation 15; case H1, case H6, case I4.
    let crlf = "---\r\nname: crlf-skill\r\ndescription: Windows lines\r\n---\r\n\r\nBody\r\n";
    let mark = "\u{feff}---\nname: bom-skill\ndescription: Starts with a mark\n---\n\nBody\n";
    let blanks = "---  \nname: blanks\ndescription: Behind the fences\n--- \t\n\nBody\n";
    let fold = "---\r\nname: fold\r\ndescription: >-\r\n  two lines\r\n  folded\r\n---\r\n";
    let skill = |name: &str, description: &str, file: &str| {
        let frontmatter = json!({ "name": name, "description": description });
        Skill::at(&format!("skill://{name}/SKILL.md"))
            .with_frontmatter(&frontmatter.to_string())
            .with_skill_file(file)
    };
    let (origin, gateway) = super::served([
        skill("crlf-skill", "Windows lines", crlf),
        skill("bom-skill", "Starts with a mark", mark),
        skill("blanks", "Behind the fences", blanks),
        skill("fold", "two lines folded", fold),
    ])
    .await;
    let host = gateway.host();
    let digests = [
        (
            "crlf-skill",
            "sha256:a1ae0a0fc89ae00cd8b23d4072ea0440147829b5a1eeec7941bf57171e11ebfc",
            64,
        ),
        (
            "bom-skill",
            "sha256:bfec5d0a75eab6e47e57c9c776c21361b06cb6a4f3ba5b641eddf174d94954aa",
            65,
        ),
    ];
    for (name, digest, size) in digests {
        let entry = host.get(&format!("skill://acme/{name}/SKILL.md")).await;
        let own = &entry.result()["skill"]["resources"][0];
        assert_eq!((&own["digest"], &own["size"]), (&json!(digest), &json!(size)));
    }
    for (name, file) in [
        ("crlf-skill", crlf),
        ("bom-skill", mark),
        ("blanks", blanks),
        ("fold", fold),
    ] {
        let read = host.read(&format!("skill://acme/{name}/SKILL.md")).await;
        assert_eq!(read.bytes(), file.as_bytes(), "{name}");
        assert_eq!(findings(&gateway, &format!("acme/{name}")).await, [""; 0], "{name}");
    }
    // With its line ends converted the file is another one.
    let other = skill("lf-skill", "Windows lines", &crlf.replace("crlf", "lf"));
    origin.publish(other);
    gateway.approve("acme/lf-skill").await;
    origin.spoil("skill://lf-skill/SKILL.md", "SKILL.md", |bytes| {
        String::from_utf8_lossy(bytes).replace("\r\n", "\n").into_bytes()
    });
    let answer = host.read("skill://acme/lf-skill/SKILL.md").await;
    assert_eq!(answer.reason(), "mismatch");
    assert!(
        answer.text.contains("has 56 bytes where its manifest says 62"),
        "{}",
        answer.text
    );
    gateway.finish().await;
}

#[tokio::test]
async fn a_file_that_is_made_to_grow_is_refused_and_holds_up_nobody() {
    // case I9: nine aliases of nine aliases of …
    let level = |at: usize| {
        let aliases = vec![format!("*a{}", at.saturating_sub(1)); 9].join(", ");
        format!("a{at}: &a{at} [{aliases}]\n")
    };
    let bomb: String = std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned())
        .chain((1..9).map(level))
        .collect();
    let file = format!("---\nname: bomb\ndescription: d\n{bomb}---\n");
    let skill = Skill::at("skill://bomb/SKILL.md").with_skill_file(file);
    let (_origin, gateway) = super::served([skill, Skill::at("skill://sound/SKILL.md")]).await;
    let host = gateway.host();
    let answer = host.read("skill://acme/bomb/SKILL.md").await;
    assert_eq!(answer.reason(), "mismatch");
    assert!(answer.text.contains("aliases expanded"), "{}", answer.text);
    host.read("skill://acme/sound/SKILL.md").await.result();
    gateway.finish().await;
}
