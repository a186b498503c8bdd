//! The command line.
//!
//! Imports `domain`, `admin` (client types) and `gateway`. A command asks the running gateway over its socket; where none
//! runs it opens the data folder itself, and both ways go through the same [`Command`]s. Errors go to standard error, exit
//! codes are those of design §10.

mod approve;
mod arguments;
mod ask;
mod audit;
mod check;
mod connect;
mod deliveries;
mod evidence;
mod leaves;
mod lock;
mod output;
mod policy;
mod recall;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use serde_json::Value;

use crate::admin::Command;
use crate::admin::Failure;
use crate::admin::TokenAct;
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::Label;
use crate::gateway::CatalogFormat;
use crate::gateway::Mode;
use crate::gateway::WitnessOptions;
use crate::telemetry;
use crate::tls;

use arguments::Arguments;
use arguments::OriginAct;
use arguments::Verb;
use ask::Ask;
use output::Output;

/// How a host that started this process is served.
#[derive(Clone, Debug)]
pub struct StdioOptions {
    /// One origin; without it all.
    pub origin: Option<Label>,
    /// Whether this process is the gateway itself, instead of leading to one.
    pub is_standalone: bool,
}

/// Reads the arguments, does what they say, and gives the exit code. `serve`, `stdio` and `witness`, which serve others, are
/// handed in, since they stand above.
pub fn main<S, F, T, H, W, G>(serve: S, stdio: T, witness: W) -> ExitCode
where
    S: FnOnce(Config, Mode) -> F,
    F: Future<Output = Result<(), Failure>>,
    T: FnOnce(Config, StdioOptions) -> H,
    H: Future<Output = Result<(), Failure>>,
    W: FnOnce(WitnessOptions) -> G,
    G: Future<Output = Result<(), Failure>>,
{
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let shown = error.print().is_ok();
            return ExitCode::from(if asked && shown { 0 } else { 64 });
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return told(&Failure::ours(format!("the runtime cannot be made: {error}"))),
    };
    tls::install_provider();
    let done = runtime.block_on(Box::pin(async {
        if let Verb::Serve { offline } = arguments.verb {
            let config = configured(&arguments.config)?;
            return Box::pin(serve(config, Mode { offline }))
                .await
                .map(|()| ExitCode::SUCCESS);
        }
        if let Verb::Stdio { origin, standalone } = arguments.verb {
            let read = if standalone { configured } else { unsecret };
            let (config, is_standalone) = (read(&arguments.config)?, standalone);
            let served = Box::pin(stdio(config, StdioOptions { origin, is_standalone }));
            return served.await.map(|()| ExitCode::SUCCESS);
        }
        run(arguments, witness).await
    }));
    done.unwrap_or_else(|failure| told(&failure))
}

/// Reads the configuration of a gateway that is to run, and begins to log as it says.
fn configured(file: &Path) -> Result<Config, Failure> {
    let config = Config::load(file).map_err(|invalid| Failure::usage(invalid.to_string()))?;
    telemetry::init(&config.log).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(config)
}

/// Reads the configuration for what needs none of the origins' secrets.
fn unsecret(file: &Path) -> Result<Config, Failure> {
    Config::load_without_secrets(file).map_err(|invalid| Failure::usage(invalid.to_string()))
}

/// Prints a failure and gives its exit code.
fn told(failure: &Failure) -> ExitCode {
    // Without standard error there is nobody to tell.
    let _gone = writeln!(std::io::stderr(), "portcullis: {failure}").is_err();
    ExitCode::from(failure.fault.exit_code())
}

async fn run<W, G>(arguments: Arguments, witness: W) -> Result<ExitCode, Failure>
where
    W: FnOnce(WitnessOptions) -> G,
    G: Future<Output = Result<(), Failure>>,
{
    let output = Output::new(arguments.json);
    if let Verb::Audit { act } = &arguments.verb {
        if let Some(done) = act.run_alone(&output) {
            return done;
        }
        if let Some(options) = act.witness() {
            return Box::pin(witness(options)).await.map(|()| ExitCode::SUCCESS);
        }
    }
    if let Verb::Check(check) = &arguments.verb {
        return Box::pin(check.run(&output)).await;
    }
    if let Verb::Connect(connect) = &arguments.verb {
        return connect.run(&unsecret(&arguments.config)?, &arguments.config, &output);
    }
    let ask = Ask::new(&arguments.config)?;
    carry_out(&ask, &output, arguments.verb).await
}

async fn carry_out(ask: &Ask, output: &Output, verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Serve { .. } | Verb::Stdio { .. } | Verb::Connect(_) | Verb::Check(_) => {
            Err(Failure::ours("this is no command to ask for".to_owned()))
        }
        Verb::Skills { state } => {
            let mut skills = ask.value(&Command::Skills).await?;
            if let (Some(state), Some(list)) = (state, skills.as_array_mut()) {
                list.retain(|skill| skill.get("state").and_then(Value::as_str) == Some(state.as_str()));
            }
            output.skills(&skills)
        }
        Verb::Origins => output.origins(&ask.value(&Command::Origins).await?),
        Verb::Catalog { origin, format } => {
            let format = if output.is_json() { CatalogFormat::Json } else { format };
            output.catalog(&ask.value(&Command::Catalog { origin, format }).await?)
        }
        Verb::Origin { act } => decide_origin(ask, output, act).await,
        Verb::Show { skill } => output.details(&ask.value(&Command::Show { skill: skill.0 }).await?),
        Verb::Diff { skill } => output.diff(&ask.value(&Command::Diff { skill: skill.0 }).await?),
        Verb::Cat { skill, file } => output.file(&ask.value(&Command::Cat { skill: skill.0, file }).await?),
        Verb::Approve(approve) => approve.run(ask, output).await,
        Verb::Deny { skill, set, note } => {
            let skill = skill.0;
            output.decided("denied", &ask.value(&Command::Deny { skill, set, note }).await?)
        }
        Verb::Revoke { skill, note } => {
            output.decided("revoked", &ask.value(&Command::Revoke { skill: skill.0, note }).await?)
        }
        Verb::Attest { skill, out } => {
            let envelope = ask.value(&Command::Attest { skill: skill.0 }).await?;
            output.attested(&envelope, out.as_deref())
        }
        Verb::Lock(lock) => lock.run(ask, output).await,
        Verb::Recall(recall) => recall.run(ask, output).await,
        Verb::Pull { skill } => output.pulled(&ask.long(&Command::Pull { skill: skill.0 }, "files").await?),
        Verb::Verify => output.checked(&ask.long(&Command::Verify, "bytes").await?),
        Verb::RebuildIndex => output.rebuilt(&ask.value(&Command::RebuildIndex).await?),
        Verb::Audit { act } => act.run(ask, output, Clock::system().now()).await,
        Verb::Policy { act } => act.run(ask, output).await,
        Verb::Token { act } => token(ask, output, act).await,
        Verb::Health => output.health(&ask.running(&Command::Health).await?),
    }
}

async fn decide_origin(ask: &Ask, output: &Output, act: OriginAct) -> Result<ExitCode, Failure> {
    match act {
        OriginAct::Accept { label } => output.accepted(&ask.value(&Command::OriginAccept { label }).await?),
        OriginAct::Remove { label } => output.removed(&ask.value(&Command::OriginRemove { label }).await?),
    }
}

async fn token(ask: &Ask, output: &Output, act: arguments::TokenAct) -> Result<ExitCode, Failure> {
    let answer = async |act| ask.value(&Command::Token(act)).await;
    match act {
        arguments::TokenAct::New { name } => output.token(&answer(TokenAct::New { name }).await?),
        arguments::TokenAct::List => output.tokens(&answer(TokenAct::List).await?),
        arguments::TokenAct::Revoke { token } => output.tokens_revoked(&answer(TokenAct::Revoke { token }).await?),
    }
}
