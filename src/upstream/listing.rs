//! Walking an origin's listing, which may be endless, repetitive or broken half-way (H-20, S-31, S-32).

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Error;
use super::folder::Gap;
use crate::domain::Limits;
use crate::domain::RejectedEntry;

/// What a listing gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries' texts, in the origin's order. Each is one JSON value; nothing else about it was checked.
    pub entries: Vec<String>,
    /// What a folder has and does not publish.
    pub rejected: Vec<RejectedEntry>,
    /// Skills of a folder that another folder of the origin has by the same name, each with the one that goes before it: both
    /// are URIs.
    pub shadowed: Vec<(String, String)>,
    /// How long the origin says that this is fresh.
    pub ttl: Option<Duration>,
    /// Why the rest is missing, when the listing had to end early.
    pub shortfall: Option<Shortfall>,
}

/// Why a listing ended before its last page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortfall {
    /// A cursor came twice, so that the listing would never end.
    #[error("the listing repeats the cursor {0:?}")]
    RepeatedCursor(String),
    /// More pages than allowed.
    #[error("the listing has over {0} pages")]
    TooManyPages(usize),
    /// More entries than allowed.
    #[error("the listing has over {0} entries")]
    TooManyEntries(usize),
    /// More bytes than allowed.
    #[error("the listing has over {0} bytes")]
    TooManyBytes(usize),
    /// A later page failed.
    #[error("page {page} failed: {error}")]
    PageFailed {
        /// Which, counted from 1.
        page: usize,
        /// How.
        error: Error,
    },
    /// A folder has what could not be looked at; at least one.
    #[error("not all of the folder was looked at: {}", in_short(.0))]
    Gaps(Vec<Gap>),
}

/// Gaps that are told of one by one.
const GAPS_TOLD: usize = 5;

/// The first few gaps, and how many more there are.
fn in_short(gaps: &[Gap]) -> String {
    let told: Vec<_> = gaps.iter().take(GAPS_TOLD).map(ToString::to_string).collect();
    let told = told.join("; ");
    match gaps.len().saturating_sub(GAPS_TOLD) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) entries: Vec<String>,
    /// The next page's cursor; the empty string is one (base protocol §11).
    pub(super) next: Option<String>,
    pub(super) ttl: Option<Duration>,
}

/// Asks for page after page until the last one, or until a bound or a failure ends it.
pub(super) async fn walk<F>(
    limits: &Limits,
    total: Duration,
    mut ask: impl FnMut(Option<String>) -> F,
) -> Result<Listing, Error>
where
    F: Future<Output = Result<Page, Error>>,
{
    // A little early, so that what was good is kept when the whole listing's time runs out.
    let deadline = Instant::now() + total.mul_f64(0.9);
    let mut listing = Listing::default();
    let (mut cursor, mut cursors, mut bytes) = (None, HashSet::new(), 0);
    for number in 1..=limits.listing_pages {
        let page = match tokio::time::timeout_at(deadline, ask(cursor.clone())).await {
            Ok(Ok(page)) => page,
            failed => {
                let error = failed.map_or(Error::TimedOut(total), |page| {
                    page.err().unwrap_or(Error::TimedOut(total))
                });
                if number == 1 {
                    return Err(error);
                }
                listing.shortfall = Some(Shortfall::PageFailed { page: number, error });
                return Ok(listing);
            }
        };
        listing.ttl = [listing.ttl, page.ttl].into_iter().flatten().min();
        for entry in page.entries {
            bytes += entry.len();
            if listing.entries.len() == limits.listing_entries {
                listing.shortfall = Some(Shortfall::TooManyEntries(limits.listing_entries));
                return Ok(listing);
            }
            if bytes > limits.listing_bytes {
                listing.shortfall = Some(Shortfall::TooManyBytes(limits.listing_bytes));
                return Ok(listing);
            }
            listing.entries.push(entry);
        }
        let Some(next) = page.next else { return Ok(listing) };
        if !cursors.insert(next.clone()) {
            listing.shortfall = Some(Shortfall::RepeatedCursor(next));
            return Ok(listing);
        }
        cursor = Some(next);
    }
    listing.shortfall = Some(Shortfall::TooManyPages(limits.listing_pages));
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: Duration = Duration::from_secs(60);

    fn page(entries: &[&str], next: Option<&str>) -> Result<Page, Error> {
        Ok(Page {
            entries: entries.iter().map(|e| (*e).to_owned()).collect(),
            next: next.map(str::to_owned),
            ttl: None,
        })
    }

    async fn walked(limits: Limits, answer: impl Fn(Option<&str>) -> Result<Page, Error>) -> Result<Listing, Error> {
        walk(&limits, TOTAL, |cursor| std::future::ready(answer(cursor.as_deref()))).await
    }

    #[tokio::test]
    async fn an_empty_cursor_is_a_cursor() {
        let listing = walked(Limits::default(), |cursor| match cursor {
            None => page(&["a"], Some("")),
            Some("") => page(&["b"], Some("x")),
            Some(_) => page(&["c"], None),
        });
        assert_eq!(
            listing.await.unwrap(),
            Listing {
                entries: ["a", "b", "c"].map(str::to_owned).to_vec(),
                ..Listing::default()
            }
        );
    }

    #[tokio::test]
    async fn a_listing_that_will_not_end_is_ended_with_what_was_good() {
        let small = |change: fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            limits
        };
        let turn = std::cell::Cell::new(0);
        let endless = |_: Option<&str>| {
            turn.set(turn.get() + 1);
            page(&["abc", "abc"], Some(&turn.get().to_string()))
        };
        for (limits, shortfall, kept) in [
            (small(|l| l.listing_pages = 3), Shortfall::TooManyPages(3), 6),
            (small(|l| l.listing_entries = 5), Shortfall::TooManyEntries(5), 5),
            (small(|l| l.listing_bytes = 13), Shortfall::TooManyBytes(13), 4),
        ] {
            let listing = walked(limits, endless).await.unwrap();
            assert_eq!((listing.shortfall, listing.entries.len()), (Some(shortfall), kept));
        }
        let listing = walked(Limits::default(), |_| page(&["a"], Some("same"))).await.unwrap();
        assert_eq!(listing.shortfall, Some(Shortfall::RepeatedCursor("same".to_owned())));
        assert_eq!(listing.entries.len(), 2);
    }

    #[tokio::test]
    async fn a_later_page_that_fails_keeps_the_earlier_ones() {
        let listing = walked(Limits::default(), |cursor| match cursor {
            None => page(&["a"], Some("2")),
            Some(_) => Err(Error::Status(500)),
        });
        let shortfall = Shortfall::PageFailed {
            page: 2,
            error: Error::Status(500),
        };
        assert_eq!(listing.await.unwrap().shortfall, Some(shortfall));
        assert_eq!(
            walked(Limits::default(), |_| Err(Error::Status(500))).await,
            Err(Error::Status(500))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_never_comes_ends_the_listing_in_time() {
        let limits = Limits::default();
        let listing = walk(&limits, TOTAL, |cursor| async move {
            if cursor.is_some() {
                std::future::pending::<()>().await;
            }
            page(&["a"], Some("2"))
        });
        assert_eq!(listing.await.unwrap().entries.len(), 1);
    }
}
