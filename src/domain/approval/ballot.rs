//! Votes: how the words of several people become one decision.

use std::num::NonZeroU32;

use super::commands::Refusal;
use crate::domain::audit::Actor;
use crate::domain::audit::Event;

/// Whose word is given, and how many words it takes.
#[derive(Clone, Copy, Debug)]
pub struct Ballot<'a> {
    /// How many people it takes.
    pub quorum: NonZeroU32,
    /// Who gives their word now.
    pub by: &'a Actor,
    /// The people who count, as the record knows them. Where one is enough, anybody counts.
    pub listed: &'a [Actor],
}

/// How far a vote is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// People who gave their word.
    pub votes: u32,
    /// People it takes.
    pub of: NonZeroU32,
    /// Whether the one who asks had given theirs before.
    pub yours_already: bool,
}

/// What comes of a person's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteOutcome {
    /// Nothing: it had been decided so before.
    Stands,
    /// It counts, and more are needed; the leaf to write, unless it had been given before.
    Voted(Option<Event>, Tally),
    /// It decides; the leaf to write.
    Decided(Event),
}

/// The people who gave their word about one thing, each once, with the leaves that say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Votes(Vec<(u64, Actor)>);

/// What one more word does.
pub(super) enum Cast {
    /// More are needed.
    Counted(Tally),
    /// It decides; the leaves of the others.
    Deciding(Vec<u64>),
}

impl Votes {
    /// Takes in the vote at `leaf`.
    pub(super) fn add(&mut self, leaf: u64, actor: &Actor) {
        self.0.push((leaf, actor.clone()));
    }

    /// Says whether nobody gave their word.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What it was about is over.
    pub(super) fn end(&mut self) {
        self.0.clear();
    }

    /// A person left the record; their word counts no more.
    pub(super) fn forget(&mut self, commitment: &str) {
        self.0.retain(|(_, actor)| match actor {
            Actor::Gateway => true,
            Actor::Person(known) => known != commitment,
        });
    }

    /// What the word of `ballot.by` does, beside those given from the leaf `since` on by people who still count.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotListed`] when it takes several and this one does not count.
    pub(super) fn cast(&self, ballot: &Ballot<'_>, since: u64) -> Result<Cast, Refusal> {
        let quorum = ballot.quorum;
        let counts = |actor: &Actor| ballot.listed.contains(actor);
        if quorum > NonZeroU32::MIN && !counts(ballot.by) {
            return Err(Refusal::NotListed { quorum });
        }
        let mut others: Vec<(u64, &Actor)> = Vec::new();
        let mut yours_already = false;
        for (leaf, actor) in self.0.iter().filter(|(leaf, actor)| *leaf >= since && counts(actor)) {
            if actor == ballot.by {
                yours_already = true;
            } else if others.iter().all(|(_, other)| *other != actor) {
                others.push((*leaf, actor));
            }
        }
        let votes = u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_add(1);
        if votes >= quorum.get() {
            return Ok(Cast::Deciding(others.into_iter().map(|(leaf, _)| leaf).collect()));
        }
        Ok(Cast::Counted(Tally {
            votes,
            of: quorum,
            yours_already,
        }))
    }

    /// How many people who count have given their word from the leaf `since` on.
    pub(super) fn count(&self, listed: &[Actor], since: u64) -> u32 {
        let given = |person: &&Actor| self.0.iter().any(|(leaf, actor)| *leaf >= since && actor == *person);
        u32::try_from(listed.iter().filter(given).count()).unwrap_or(u32::MAX)
    }
}

impl Cast {
    /// The outcome, with the leaf for a vote or, knowing the leaves of the others, for the decision.
    pub(super) fn outcome(self, vote: impl FnOnce() -> Event, decision: impl FnOnce(Vec<u64>) -> Event) -> VoteOutcome {
        match self {
            Self::Counted(tally) => VoteOutcome::Voted((!tally.yours_already).then(vote), tally),
            Self::Deciding(votes) => VoteOutcome::Decided(decision(votes)),
        }
    }
}
