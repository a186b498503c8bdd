//! The checks: what each is called, how much it weighs, and what a reader should look at.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::domain::text::serde_as_text;

/// The version of the checks: it changes with their table, and with what any of them finds. Whoever keeps remarks keeps
/// it too, and inspects again when it is another.
pub const CHECKS_VERSION: u32 = 1;

/// How much a remark weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know: many honest skills have it.
    Note,
    /// Some honest skills have it; look before approving.
    Warning,
    /// Hardly any honest skill has it.
    High,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::High => "high",
        })
    }
}

/// A word that names no check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} names no check")]
pub struct UnknownCheck(pub String);

/// Declares [`Check`] and its table in one place, so that neither has a row that the other lacks.
macro_rules! checks {
    ($($check:ident $id:literal $severity:ident $look_at:literal)*) => {
        /// What is looked for in a skill. Each has an id that never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check {
            $(#[doc = $look_at] $check,)*
        }

        impl Check {
            /// All of them, in the order of the README's table.
            pub const ALL: &'static [Self] = &[$(Self::$check,)*];

            /// Its id, severity and sentence.
            fn row(self) -> (&'static str, Severity, &'static str) {
                match self {
                    $(Self::$check => ($id, Severity::$severity, $look_at),)*
                }
            }
        }
    };
}

checks! {
    InvisibleCharacters "invisible-characters" Warning "Characters that nobody sees: look at what they split or hide."
    HiddenMessage "hidden-message" High "A run of invisible characters, long enough to carry a message to a model."
    TagCharacters "tag-characters" High "Unicode tag characters: text that models read and people do not see."
    BidirectionalControls "bidirectional-controls" High
        "Direction controls: the text is shown in another order than it is read."
    ControlCharacters "control-characters" Warning
        "Control characters: they can change what a terminal shows of the file."
    MixedScripts "mixed-scripts" Warning
        "A word of Latin letters and others that look like them: it is not the word it seems."
    TextOutOfSight "text-out-of-sight" Warning "Text behind so many blanks that a viewer may not show it."
    NotUtf8 "not-utf-8" Warning "A text that is not UTF-8: two readers may see two texts."

    HiddenComment "hidden-comment" Note "A comment: a rendered page does not show it, a model reads it."
    CommentInstructions "comment-instructions" Warning
        "A comment that speaks to a model, or of secrets: a rendered page does not show it."
    ActiveMarkup "active-markup" Warning "HTML that runs, or that a rendered page hides."
    InjectionPhrase "injection-phrase" Warning
        "Words that set a model's instructions aside, or keep something from its user."
    CommandExpansion "command-expansion" Warning
        "A command that a host may run while it loads the skill, before a model reads it."
    FileImport "file-import" Note "A file whose content a host may put into the prompt."
    OutsideLink "outside-link" Warning "A link or import that leads out of the skill's folder."
    SkillLink "skill-link" Note "A link that may lead to another skill, which an approval of this one does not cover."
    WebLink "web-link" Note "A web site: what it answers is not part of what is approved."
    UnusualHost "unusual-host" Warning
        "A bare IP address, a link shortener, a place where data is dropped, or an address made to look like another."

    DownloadAndRun "download-and-run" Warning "What is downloaded is run unread; it is not part of what is approved."
    DecodeAndRun "decode-and-run" High "Encoded text is decoded and run: decode it and read it."
    ReverseShell "reverse-shell" High "A shell for whoever listens at another address."
    DataUpload "data-upload" Warning "Files or variables are sent to another machine: look at which, and where to."
    Persistence "persistence" Warning "A command that leaves something behind that runs later."
    DestructiveCommand "destructive-command" Warning "A command that destroys what it should not touch."
    SafetyOff "safety-off" Warning "A check of the host or of the system is switched off."
    CredentialPath "credential-path" Warning "A place where credentials are kept: look at what is done with them."
    RemotePackage "remote-package" Note "Code from a registry or repository: it is not part of what is approved."
    EncodedBlob "encoded-blob" Warning "A long encoded text: decode it, or ask what it is for."
    DataUri "data-uri" Note "Content inside an address, which nobody reads as it stands."
    Secret "secret" High "It has the form of a live secret: have it revoked."

    Script "script" Note "A script: read it as a program that runs on a host's machine."
    Program "program" High "A compiled program: nobody can read what it does."
    CompiledCode "compiled-code" Warning
        "Code that was compiled for an interpreter: it may not be what its source says."
    DisguisedFile "disguised-file" High "The content is not of the kind that the file's name says."
    Archive "archive" Warning "An archive: unpack it and read what is in it."
    OpaqueFile "opaque-file" Note "Content that cannot be read as text: open it with a program that you trust with it."
    ActiveDocument "active-document" Warning "A document with macros or actions, which run where it is opened."
    InstallScript "install-script" Warning "Commands that a package manager runs when it installs the folder."
    HostFile "host-file" Warning "A file that hosts or tools obey because it lies in a folder."
    HiddenFile "hidden-file" Note "A file that many listings leave out, since its name begins with a dot."
    LargeFile "large-file" Note "More text than anybody reads to its end."
    ImageText "image-text" Note "Text in an image's metadata: no viewer shows it."
    ImageTail "image-tail" Warning "Bytes behind an image's end: no viewer shows them."
    ActiveSvg "active-svg" Warning "A drawing with scripts, foreign content or outside references."

    AllowedTools "allowed-tools" Note "Tools that a host may let the skill use without asking."
    AllowedShell "allowed-shell" Warning "Any shell command, or any tool, without asking."
    Hooks "hooks" Warning "Commands that a host runs by itself when something happens."
    HostSettings "host-settings" Note "The skill says how a host runs it: with which model, agent, shell or context."
    PermissionBypass "permission-bypass" High "The skill wants the host not to ask its user."
    McpServers "mcp-servers" Warning
        "MCP servers that the skill brings along: their tools are not part of what is approved."
    LookAlikeName "look-alike-name" Warning "A name that is easily taken for another skill's."
    LookAlikePath "look-alike-path" Warning "A path that is easily taken for another one of the same skill."
}

impl Check {
    /// Its id, a stable word such as `invisible-characters`.
    pub fn id(self) -> &'static str {
        self.row().0
    }

    /// How much a remark of it weighs.
    pub fn severity(self) -> Severity {
        self.row().1
    }

    /// What a reader should look at, one sentence or two.
    pub fn look_at(self) -> &'static str {
        self.row().2
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Check {
    type Err = UnknownCheck;

    fn from_str(id: &str) -> Result<Self, UnknownCheck> {
        let known = Self::ALL.iter().find(|check| check.id() == id);
        known.copied().ok_or_else(|| UnknownCheck(id.to_owned()))
    }
}

serde_as_text!(Check);
