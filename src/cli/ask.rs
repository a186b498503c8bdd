//! Asking the running gateway, or one opened for the command.

use std::io::IsTerminal as _;
use std::io::stderr;
use std::path::Path;
use std::path::PathBuf;

use indicatif::ProgressBar;
use indicatif::ProgressStyle;
use serde_json::Value;

use crate::admin::Client;
use crate::admin::Command;
use crate::admin::Failure;
use crate::admin::Heard;
use crate::clock::Clock;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::gateway::Mode;
use crate::shutdown::Shutdown;

/// Where to ask.
pub(super) struct Ask {
    file: PathBuf,
    socket: PathBuf,
}

impl Ask {
    /// Finds the data folder; the origins' secrets are not needed for that.
    pub(super) fn new(file: &Path) -> Result<Self, Failure> {
        let config = Config::load_without_secrets(file).map_err(|invalid| Failure::usage(invalid.to_string()))?;
        Ok(Self {
            file: file.to_owned(),
            socket: config.admin_socket(),
        })
    }

    /// The configuration's file.
    pub(super) fn config(&self) -> &Path {
        &self.file
    }

    /// Has a command carried out.
    pub(super) async fn value(&self, command: &Command) -> Result<Value, Failure> {
        self.client().await?.run(command, &mut |_heard| Ok(())).await
    }

    /// Has a long command carried out, with a bar on a terminal.
    pub(super) async fn long(&self, command: &Command, unit: &str) -> Result<Value, Failure> {
        let bar = if stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {unit} {{msg}}")) {
            bar.set_style(style);
        }
        let mut advance = |heard: Heard| {
            if let Heard::Progress(step) = heard {
                bar.set_length(step.total);
                bar.set_position(step.done);
                bar.set_message(step.what);
            }
            Ok(())
        };
        let answer = self.client().await?.run(command, &mut advance).await;
        bar.finish_and_clear();
        answer
    }

    /// Has a command carried out that gives many items, handing each on as it comes.
    pub(super) async fn each(
        &self,
        command: &Command,
        take: &mut dyn FnMut(Value) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        let mut hear = |heard: Heard| match heard {
            Heard::Progress(_) => Ok(()),
            Heard::Item(item) => take(item),
        };
        self.client().await?.run(command, &mut hear).await
    }

    /// Asks the running gateway and nobody else.
    pub(super) async fn running(&self, command: &Command) -> Result<Value, Failure> {
        let client = Client::connect(&self.socket).await?;
        let client = client.ok_or_else(|| {
            Failure::unknown(format!(
                "no gateway runs on {}; start one with: portcullis serve",
                self.socket.display()
            ))
        })?;
        client.run(command, &mut |_heard| Ok(())).await
    }

    async fn client(&self) -> Result<Client, Failure> {
        if let Some(running) = Client::connect(&self.socket).await? {
            return Ok(running);
        }
        let config = Config::load(&self.file).map_err(|invalid| Failure::usage(invalid.to_string()))?;
        match Box::pin(Gateway::open(
            &config,
            Mode::default(),
            Clock::system(),
            Shutdown::new(),
        ))
        .await
        {
            Ok(opened) => Ok(Client::Opened(opened)),
            // A gateway that was about to listen holds it.
            Err(error) if error.is_locked() => Client::connect(&self.socket).await?.ok_or_else(|| error.into()),
            Err(error) => Err(error.into()),
        }
    }
}
