//! Who asks: a token, a user of this machine, or an address. On the record it is a commitment; the name lies in `people/` alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::store;
use crate::store::Store;
use crate::store::TokenId;

/// Before a caller's address.
const ADDRESS: &str = "address:";

/// Before a caller's token.
const TOKEN: &str = "token:";

/// Addresses that are told apart on the record: each has a file in `people/`, and whoever reaches the listener may have many.
const MAX_ADDRESSES: usize = 100_000;

/// The name of all further addresses.
const OTHER_ADDRESSES: &str = "address:one of many";

/// Whoever asks for skills, by the name that `people/` has. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Arc<str>);

impl Caller {
    /// Whoever asks from an address.
    pub fn at(address: IpAddr) -> Self {
        Self(format!("{ADDRESS}{}", address.to_canonical()).into())
    }

    /// Whoever shows a token.
    pub(super) fn with_token(id: &TokenId, name: &str) -> Self {
        Self(format!("{TOKEN}{id}:{name}").into())
    }

    /// A user of this machine, as the record calls people: neither a token nor an address has such a name.
    pub(super) fn called(name: &str) -> Self {
        Self(name.into())
    }

    fn is_address(&self) -> bool {
        self.0.starts_with(ADDRESS)
    }
}

/// Says whether `who`, as an operator writes it, is the one that `people/` calls `name`: a person by that name, a token by
/// its name or id, an address by itself.
pub fn is_called(name: &str, who: &str) -> bool {
    let token = name.strip_prefix(TOKEN).and_then(|token| token.split_once(':'));
    name == who || name.strip_prefix(ADDRESS) == Some(who) || token.is_some_and(|(id, token)| id == who || token == who)
}

/// Finds callers' commitments, and bounds how many addresses get one of their own.
#[derive(Default)]
pub(super) struct Commitments {
    /// Addresses in `people/`; nothing until they are counted.
    addresses: Option<usize>,
    /// Those found since [`Commitments::forget`].
    found: HashMap<Caller, String>,
}

impl Commitments {
    /// Forgets what was found: a person may be erased at any time, and is then somebody else.
    pub(super) fn forget(&mut self) {
        self.found.clear();
    }

    /// The commitment of a caller, which is written down when it is new.
    pub(super) fn of(&mut self, store: &Store, caller: &Caller) -> Result<String, store::Error> {
        if let Some(found) = self.found.get(caller) {
            return Ok(found.clone());
        }
        let found = self.find(store, caller)?;
        self.found.insert(caller.clone(), found.clone());
        Ok(found)
    }

    fn find(&mut self, store: &Store, caller: &Caller) -> Result<String, store::Error> {
        let is_new = caller.is_address() && !store.knows_person(&caller.0);
        if !is_new {
            return store.person(&caller.0).map(|actor| actor.to_string());
        }
        let count = || store.people().values().filter(|name| name.starts_with(ADDRESS)).count();
        let addresses = self.addresses.get_or_insert_with(count);
        if *addresses >= MAX_ADDRESSES {
            return store.person(OTHER_ADDRESSES).map(|actor| actor.to_string());
        }
        let actor = store.person(&caller.0)?;
        *addresses += 1;
        Ok(actor.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_called_by_what_an_operator_knows() {
        let token = Caller::with_token(&"tok-0123456789abcdef".parse().unwrap(), "ann's laptop: blue");
        let address = Caller::at("::ffff:192.0.2.7".parse().unwrap());
        for (name, who, is) in [
            (&*token.0, "ann's laptop: blue", true),
            (&*token.0, "tok-0123456789abcdef", true),
            (&*token.0, "ann's laptop", false),
            (&*token.0, "", false),
            (&*address.0, "192.0.2.7", true),
            (&*address.0, "address:192.0.2.7", true),
            (&*address.0, "192.0.2.70", false),
            ("uid:1000", "uid:1000", true),
            ("uid:1000", "1000", false),
        ] {
            assert_eq!(is_called(name, who), is, "{name} {who}");
        }
    }
}
