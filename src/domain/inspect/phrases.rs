//! Commands and words that a reviewer should see, found by pattern.
//!
//! Every pattern stays within a line, continued ones included, and is one that the engine matches in linear time.

use std::sync::LazyLock;

use super::check::Check;
use super::pattern::Pattern;
use super::pattern::Patterns;
use super::remark::Sheet;
use super::remark::shown;

/// Looks for every pattern in `text`.
pub(super) fn inspect(text: &str, sheet: &mut Sheet) {
    PATTERNS
        .iter()
        .for_each(|(check, pattern)| find(*check, pattern, text, sheet));
}

/// Looks for words that are aimed at a model in a text that has no lines, and in which nothing else is of interest.
pub(super) fn inspect_words(text: &str, sheet: &mut Sheet) {
    let words = PATTERNS.iter().filter(|(check, _)| *check == Check::InjectionPhrase);
    for found in words.flat_map(|(_, pattern)| pattern.find(text)) {
        sheet.add(Check::InjectionPhrase, None, || shown(found.text));
    }
}

/// Looks at what the drawing `text` runs or refers to.
pub(super) fn inspect_drawing(text: &str, sheet: &mut Sheet) {
    find(Check::ActiveSvg, &DRAWING, text, sheet);
}

/// Looks at what the `package.json` in `text` has a package manager run.
pub(super) fn inspect_package(text: &str, sheet: &mut Sheet) {
    find(Check::InstallScript, &PACKAGE, text, sheet);
}

fn find(check: Check, pattern: &Pattern, text: &str, sheet: &mut Sheet) {
    for found in pattern.find(text) {
        sheet.add(check, found.at, || shown(found.text));
    }
}

/// Every pattern here.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = &'static Pattern> {
    PATTERNS
        .iter()
        .map(|(_, pattern)| pattern)
        .chain([&*DRAWING, &*PACKAGE])
}

/// What a drawing runs or refers to.
static DRAWING: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r#"(?i)<script\b[^>\n]* | <foreignObject\b | \son[a-z]{4,20}\s*=[^>\n]* | javascript:[^\n"']*
    | <!ENTITY\b[^\n]* | <(?:image|use|feImage)\b[^>\n]*href\s*=\s*["']https?:[^"'\n]*"#,
    )
});

/// What a package manager runs.
static PACKAGE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r#""(?:pre|post)?install"\s*:\s*"[^"\n]*" | "prepare"\s*:\s*"[^"\n]*""#));

/// The patterns for all texts.
static PATTERNS: Patterns = LazyLock::new(|| Pattern::table(SOURCES));

/// Which check looks for what. Blanks in a pattern mean nothing.
const SOURCES: &[(Check, &str)] = &[
    // curl … | sh
    (
        Check::DownloadAndRun,
        r#"(?i) \b(?:curl|wget|fetch)\b @@ (?:://|\$|\b[a-z0-9-]+\.[a-z]{2,}/) @@
           (?:\|@@){0,3} \|\s* (?:sudo\s+(?:-\S+\s+)*)? (?:env\s+(?:\w+=\S*\s+)*)? (?:/(?:usr/)?bin/)?
           (?: (?:ba|z|da|k|fi)?sh (?:[\s;&)`"'<>,.]|$)
           | (?:python[0-9.]*|node|perl|ruby|php)\s*(?:-(?:\s|$)|[;&)`"'\n]|$) )"#,
    ),
    // bash <(curl …), sh -c "$(curl …)", eval "$(wget …)", source <(curl …)
    (
        Check::DownloadAndRun,
        r#"(?i) \b(?:(?:ba|z|da|k)?sh|source|eval|python[0-9.]*|node|perl|ruby) \s+ (?:-\S+\s+)*
           ["']? (?:<\(|\$\(|`) \s* (?:curl|wget)\b @@"#,
    ),
    // irm … | iex, iex (irm …), iex ((New-Object Net.WebClient)…
    (
        Check::DownloadAndRun,
        r#"(?i) \b(?:irm|iwr|invoke-restmethod|invoke-webrequest|curl|wget)\b @@ \|\s*(?:iex|invoke-expression)\b
           | \b(?:iex|invoke-expression)\b [\s(&"'$.{]* (?:irm|iwr|invoke-restmethod|invoke-webrequest|curl|wget|
           new-object\s+(?:system\.)?net\.webclient)\b @@"#,
    ),
    // python -c "exec(urlopen(…))", eval(await fetch(…)), deno run https://…
    (
        Check::DownloadAndRun,
        r#"(?i) \b(?:exec|eval)\s*\([^\n]{0,80}(?:urlopen|requests\.get|httpx\.get|urllib\.request)\b @@
           | \beval\s*\(\s*\(?(?:await\s+)?\(?(?:await\s+)?fetch\(
           | \b(?:deno|bun)\s+run\s+(?:-\S+\s+)*https?:// @@"#,
    ),
    // curl -o x … && chmod +x x
    (
        Check::DownloadAndRun,
        r"(?i) \b(?:curl|wget)\b @@ :// @@ (?:&&|;) @@ \bchmod\s+(?:[ugoa]*\+[rw]*x|[0-7]*7[0-7]*)\b @@",
    ),
    // base64 -d | sh, eval "$(… | base64 -d)"
    (
        Check::DecodeAndRun,
        r#"(?i) \b(?:base64\s+(?:-d|--decode)|openssl\s+(?:enc\s+-)?base64\s+-d|xxd\s+-r\S*(?:\s+-p\S*)?)\b @@
           (?:\|@@){0,3} \|\s* (?:sudo\s+)? (?:(?:ba|z|da|k)?sh|python[0-9.]*|node|perl|
           ruby) (?:\s*-)?(?:[\s;&)`"']|$)
           | \b(?:eval|(?:ba|z|da|k)?sh\s+-c)\s+["']?(?:\$\(|`) [^\n)`]* \bbase64\s+(?:-d|--decode)\b
           | \b(?:ba|z)?sh\s+<\( [^\n)]* \bbase64\s+(?:-d|--decode)\b"#,
    ),
    // powershell -enc …, iex (… FromBase64String …)
    (
        Check::DecodeAndRun,
        r"(?i) \b(?:powershell|pwsh)(?:\.exe)?\b @@ \s-e(?:c|nc|ncodedcommand)?\s+[a-z0-9+/=]{24,}
          | \b(?:iex|invoke-expression)\b @@ frombase64string",
    ),
    // exec(base64.b64decode(…)), eval(atob(…))
    (
        Check::DecodeAndRun,
        r#"(?i) \b(?:exec|eval)\s*\(\s*(?:compile\s*\(\s*)?(?:__import__\(\s*["'](?:base64|zlib|codecs|
           marshal)["']\s*\)|
           base64|zlib|codecs|marshal|binascii|bytes)\s*\.\s*(?:b64decode|b32decode|a85decode|decompress|decode|
              loads|unhexlify|fromhex)\s*\(
           | \b(?:eval|new\s+Function)\s*\(\s*(?:atob\s*\(|Buffer\.from\s*\([^\n)]*base64|
           String\.fromCharCode\s*\(\s*[0-9]+\s*,)"#,
    ),
    (
        Check::ReverseShell,
        r#"(?i) \b(?:ba|z)?sh\s+-i\b @@ /dev/(?:tcp|udp)/
           | \b(?:nc|ncat|netcat) (?:[\x20\t]+[\w.$-]+)* [\x20\t]+-[a-z]*(?:e|c)[\x20\t]+["']?(?:/\S*/)?(?:(?:ba|
           z)?sh|cmd(?:\.exe)?|powershell)\b
           | \bsocat\b @@ exec:["']?\S*\bsh\b | \bmkfifo\b @@ (?:;|&&) @@ \|\s*\S*\bsh\s+-i @@ \|\s*(?:nc|ncat|
           netcat|telnet)\b
           | \bos\.dup2\s*\(\s*\w+\.fileno\s*\(\s*\)\s*,\s*[012]\s*\)"#,
    ),
    // env | curl …, curl -d @~/x, curl "…$(cat x)"
    (
        Check::DataUpload,
        r#"(?i) \b(?:env|printenv|export\s+-p|history|(?:cat|tar|zip|base64|gzip)\s[^\n|]+) \s*\| (?:@@\|){0,2} \s*
           (?:curl|wget|nc|ncat|netcat)\b @@
           | \bcurl\b @@ (?:-d|-F|-T|--data(?:-\w+)?|--form|--upload-file) [\s=]+ ["']? (?:\w+=)? @? (?:~|\$\{?HOME\}?|/)[/\w.]+ @@
           | \b(?:curl|wget)\b @@ \$\( \s* (?:cat|env|printenv|base64|tar|whoami|hostname|history)\b @@"#,
    ),
    (
        Check::Persistence,
        r#"(?i) \|\s*crontab\s+- | \bcrontab\s+-[ei]?\b\s*<<?
           | >>?\s*["']?(?:~|\$\{?HOME\}?)/\.(?:bashrc|bash_profile|zshrc|zprofile|zshenv|profile|
           config/fish/config\.fish)
           | >>?\s*["']?/etc/(?:cron|profile|rc\.local|ld\.so\.preload|systemd) | \blaunchctl\s+(?:load|bootstrap)\b
           | \bsystemctl\s+(?:--user\s+)?enable\b | \bschtasks(?:\.exe)?\s+/create\b | \\CurrentVersion\\Run\b
           | >>?\s*["']?(?:~|\$\{?HOME\}?)/\.ssh/authorized_keys"#,
    ),
    (
        Check::DestructiveCommand,
        r#"(?i) \brm\s+(?:-{1,2}[a-z-]+\s+)*-[a-z]*(?:rf|fr)[a-z]*\s+(?:-{1,2}[a-z-]+\s+)*["']?(?:/|~|
           \$\{?HOME\}?|/\*|~/)["']?(?:[\s;&|)`"'*,]|$)
           | \bmkfs(?:\.\w+)?\s+(?:-\S+\s+)*/dev/ | \bdd\s[^\n]*\bof=/dev/(?:sd|nvme|disk|hd|mmcblk)
           | :\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:
           | \bformat\s+c: | \bRemove-Item\b[^\n]*-Recurse[^\n]*\s["']?(?:C:\\?|\$env:USERPROFILE|
           \$HOME)["']?(?:\s|$)"#,
    ),
    (
        Check::SafetyOff,
        r#"(?i) --dangerously-[a-z-]+ | (?:\s|`|")--yolo\b
           | \b(?:set-executionpolicy|-executionpolicy|-ep)\s+(?:bypass|unrestricted)\b
           | \bbypassPermissions\b | \bsetenforce\s+0\b | \bcsrutil\s+disable\b | \bspctl\s+--master-disable\b
           | \bxattr\s+-[a-z]*d[a-z]*\s+com\.apple\.quarantine\b | \bNODE_TLS_REJECT_UNAUTHORIZED\s*[=:]\s*["']?0
           | \bDisableRealtimeMonitoring\b"#,
    ),
    (
        Check::CredentialPath,
        r#"(?i) \.ssh/(?:id_(?:rsa|dsa|ecdsa|ed25519)|authorized_keys)\b | \.aws/credentials\b
           | \.config/gcloud/(?:application_default_credentials|credentials)
           | \.docker/config\.json\b | \.kube/config\b | \.git-credentials\b
           | (?:~|\$\{?HOME\}?|%USERPROFILE%)[/\\]\.(?:netrc|npmrc|pypirc|pgpass|gnupg)\b
           | /etc/(?:shadow|sudoers)\b | \bsecurity\s+find-(?:generic|internet)-password\b
           | \.claude/\.credentials\.json\b | \.codex/auth\.json\b
           | \bLogin\s+Data\b[^\n]{0,40}\b(?:Chrome|Edge|Brave)\b
           | \b(?:Chrome|Edge|Brave)\b[^\n]{0,60}[/\\](?:Login\s?Data|Cookies)\b
           | \bwallet\.dat\b | /proc/(?:self|\d+)/environ\b | \bhistfile\b[^\n]*\b(?:curl|nc)\b"#,
    ),
    (
        Check::RemotePackage,
        r#"(?i) \b(?:npx|bunx|uvx|pnpx)\s+(?:-{1,2}[a-z][\w-]*(?:=\S+)?\s+)*@?[a-z0-9][\w./@:+-]*
           | \bpipx\s+(?:run|install)\s+[a-z0-9][\w.\[\]=@:+-]*
           | \b(?:pip3?|uv\s+pip)\s+install\s+(?:-{1,2}[a-z][\w-]*\s+)*["']?(?:git\+)?[a-z0-9][\w.\[\]=@:/+<>~-]*
           | \b(?:npm|pnpm)\s+(?:install|i|add|exec|dlx)\s+(?:-{1,2}[a-z][\w-]*\s+)*@?[a-z0-9][\w./@:+-]*
           | \byarn\s+(?:add|dlx)\s+(?:-{1,2}[a-z][\w-]*\s+)*@?[a-z0-9][\w./@:+-]*
           | \bcargo\s+install\s+[a-z0-9-]+ | \bgo\s+(?:install|run)\s+[a-z0-9.-]+\.[a-z]+/\S+
           | \bgem\s+install\s+[a-z0-9_-]+
           | \bdocker\s+run\s+[^\n]+ | \bgit\s+clone\s+(?:-\S+\s+)*(?:https?://|git@)\S+"#,
    ),
    (
        Check::InjectionPhrase,
        r#"(?i) \b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|the\s+|your\s+|of\s+|these\s+|
           every\s+)*
           (?:previous|prior|above|earlier|preceding|system|safety|original|
           existing)\s+(?:\w+\s+)?(?:instructions?|prompts?|rules|guidelines|guardrails|directives|messages?)\b
           | \b(?:do\s+not|don(?:'|’)t|never|without)\s+(?:ever\s+)?(?:tell|telling|inform|informing|mention|
           mentioning|reveal|revealing|notify|notifying|alert|alerting|show|showing|disclose|disclosing)\s+
             (?:this\s+|it\s+|that\s+|anything\s+|any\s+of\s+this\s+)*(?:to\s+)?(?:the\s+|your\s+|a\s+)?(?:user|
             human|operator)s?\b
           | \bwithout\s+(?:the\s+)?users?(?:'|’)?s?\s+(?:knowledge|knowing|noticing|consent|awareness)\b
           | \b(?:secretly|covertly|stealthily)\s+(?:send|copy|upload|run|execute|read|collect|add|install|
           exfiltrate|include|append)\b
           | <\|(?:im_start|im_end|system|endoftext|start_header_id)\|> | \[/?INST\] | <</?SYS>>"#,
    ),
];
