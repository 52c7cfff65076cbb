//! Faults of the API server, named by what its clients see.
//!
//! Data that a scenario can hold. Each counts what it touched, so that a fault that never mattered can be told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::request::Verb;

/// What goes wrong, and for whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Requests are refused with a status code; nothing is done.
    Status {
        /// E.g. 429, 500 or 503.
        code: u16,
        /// Which requests.
        #[serde(default)]
        on: Matching,
    },
    /// Writes are refused with 409, as if somebody else had written first; nothing is done.
    Conflict {
        /// Which requests.
        #[serde(default)]
        on: Matching,
    },
    /// Requests get no answer; nothing is done.
    Stall {
        /// Which requests.
        #[serde(default)]
        on: Matching,
    },
    /// The connection is reset instead of an answer; nothing is done.
    Reset {
        /// Which requests.
        #[serde(default)]
        on: Matching,
    },
    /// The request is carried out, then the connection is reset instead of an answer.
    LoseAnswer {
        /// Which requests.
        #[serde(default)]
        on: Matching,
    },
    /// Reads show the objects as they were some revisions ago.
    StaleReads {
        /// How many revisions; limited by the history that is known.
        by: u64,
        /// Which requests: `get` and `list`, and `watch` for the objects it begins with.
        #[serde(default)]
        on: Matching,
    },
    /// Changes are not told to watchers.
    DropWatchEvents {
        /// Which changes: by resource and name; `nth` and `count` count changes told to one watcher each.
        #[serde(default)]
        on: Matching,
    },
    /// Watches end as if their time was up: open ones when the fault begins, new ones at once.
    WatchClosed {
        /// Which watches.
        #[serde(default)]
        on: Matching,
    },
    /// Watches end with `410 Expired`, so that clients list anew: open ones when the fault begins, new ones at once.
    WatchExpired {
        /// Which watches.
        #[serde(default)]
        on: Matching,
    },
}

/// Which requests a fault is for; what is left out matches all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Matching {
    /// What is done.
    pub verb: Option<Verb>,
    /// The resource's plural, with `/status` for a status write: `baremetalhosts`, `baremetalhosts/status`. A plural
    /// alone matches both.
    pub resource: Option<String>,
    /// The object's name, where `*` stands for anything. Requests for collections have the name "".
    pub name: Option<String>,
    /// A part of the client's `User-Agent`, so that one client suffers and others do not.
    pub client: Option<String>,
    /// Only from this match on; the first is 1.
    pub nth: Option<u64>,
    /// Only so many matches.
    pub count: Option<u64>,
}

/// Names a fault that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// A request as faults look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    pub(crate) client: &'a str,
}

impl Matching {
    fn matches(&self, sight: Sight<'_>) -> bool {
        let resource = self.resource.as_deref().is_none_or(|wanted| match wanted.split_once('/') {
            Some((resource, subresource)) => resource == sight.resource && subresource == sight.subresource,
            None => wanted == sight.resource,
        });
        resource
            && self.verb.is_none_or(|verb| verb == sight.verb)
            && self.name.as_deref().is_none_or(|pattern| glob(pattern, sight.name))
            && self.client.as_deref().is_none_or(|part| sight.client.contains(part))
    }
}

/// Whether a text fits a pattern in which `*` stands for anything. Each piece between stars is taken where it first
/// fits, which never spoils a later one: however many stars there are, nothing is tried twice.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = others.rsplit_once('*').unwrap_or(("", others));
    let Some(rest) = text.strip_prefix(first) else { return false };
    let rest = middle.split('*').try_fold(rest, |rest, piece| rest.split_once(piece).map(|(_, after)| after));
    rest.is_some_and(|rest| rest.ends_with(last))
}

/// What a fault does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Refuse(u16),
    Conflict,
    Stall,
    Reset,
    LoseAnswer,
}

/// How a fault ends a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    Closed,
    Expired,
}

/// The faults that are on, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    next: u64,
    active: BTreeMap<FaultId, Active>,
}

#[derive(Clone, Debug)]
struct Active {
    fault: Fault,
    matched: u64,
    touched: u64,
}

impl Active {
    /// Counts a match; whether the fault strikes.
    fn strikes(&mut self, sight: Sight<'_>) -> bool {
        let on = self.fault.on();
        if !on.matches(sight) {
            return false;
        }
        let (nth, count) = (on.nth.unwrap_or(1), on.count);
        self.matched += 1;
        if self.matched < nth || count.is_some_and(|count| self.touched >= count) {
            return false;
        }
        self.touched += 1;
        true
    }
}

impl Fault {
    fn on(&self) -> &Matching {
        match self {
            Self::Status { on, .. }
            | Self::Conflict { on }
            | Self::Stall { on }
            | Self::Reset { on }
            | Self::LoseAnswer { on }
            | Self::StaleReads { on, .. }
            | Self::DropWatchEvents { on }
            | Self::WatchClosed { on }
            | Self::WatchExpired { on } => on,
        }
    }
}

impl Faults {
    pub(crate) fn begin(&mut self, fault: Fault) -> FaultId {
        self.next += 1;
        let id = FaultId(self.next);
        self.active.insert(id, Active { fault, matched: 0, touched: 0 });
        id
    }

    /// Ends a fault; how much it touched.
    pub(crate) fn end(&mut self, id: FaultId) -> Option<u64> {
        self.active.remove(&id).map(|active| active.touched)
    }

    pub(crate) fn touched(&self, id: FaultId) -> Option<u64> {
        self.active.get(&id).map(|active| active.touched)
    }

    /// What befalls a request: the first fault that strikes.
    pub(crate) fn on_request(&mut self, sight: Sight<'_>) -> Option<Blow> {
        self.active.values_mut().find_map(|active| {
            let blow = match active.fault {
                Fault::Status { code, .. } => Blow::Refuse(code),
                Fault::Conflict { .. } if sight.verb.writes() => Blow::Conflict,
                Fault::Stall { .. } => Blow::Stall,
                Fault::Reset { .. } => Blow::Reset,
                Fault::LoseAnswer { .. } => Blow::LoseAnswer,
                Fault::Conflict { .. }
                | Fault::StaleReads { .. }
                | Fault::DropWatchEvents { .. }
                | Fault::WatchClosed { .. }
                | Fault::WatchExpired { .. } => return None,
            };
            active.strikes(sight).then_some(blow)
        })
    }

    /// By how many revisions a read is behind.
    pub(crate) fn staleness(&mut self, sight: Sight<'_>) -> u64 {
        let behind = |active: &mut Active| match active.fault {
            Fault::StaleReads { by, .. } => active.strikes(sight).then_some(by),
            Fault::Status { .. }
            | Fault::Conflict { .. }
            | Fault::Stall { .. }
            | Fault::Reset { .. }
            | Fault::LoseAnswer { .. }
            | Fault::DropWatchEvents { .. }
            | Fault::WatchClosed { .. }
            | Fault::WatchExpired { .. } => None,
        };
        self.active.values_mut().find_map(behind).unwrap_or_default()
    }

    /// Whether a watcher is not told of a change.
    pub(crate) fn drops(&mut self, sight: Sight<'_>) -> bool {
        self.active
            .values_mut()
            .filter(|active| matches!(active.fault, Fault::DropWatchEvents { .. }))
            .any(|active| active.strikes(sight))
    }

    /// Whether and how an open watch ends now.
    pub(crate) fn ends_watch(&mut self, sight: Sight<'_>) -> Option<WatchEnd> {
        self.active.values_mut().find_map(|active| {
            let end = match active.fault {
                Fault::WatchClosed { .. } => WatchEnd::Closed,
                Fault::WatchExpired { .. } => WatchEnd::Expired,
                Fault::Status { .. }
                | Fault::Conflict { .. }
                | Fault::Stall { .. }
                | Fault::Reset { .. }
                | Fault::LoseAnswer { .. }
                | Fault::StaleReads { .. }
                | Fault::DropWatchEvents { .. } => return None,
            };
            active.strikes(sight).then_some(end)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(fault: serde_json::Value) -> Fault {
        serde_json::from_value(fault).expect("a fault")
    }

    fn sight<'a>(verb: Verb, subresource: &'a str, name: &'a str) -> Sight<'a> {
        Sight { verb, resource: "baremetalhosts", subresource, name, client: "operator/1" }
    }

    #[test]
    fn a_fault_strikes_what_it_is_for() {
        for (on, struck) in [
            (json!({}), true),
            (json!({ "verb": "update" }), true),
            (json!({ "verb": "get" }), false),
            (json!({ "resource": "baremetalhosts" }), true),
            (json!({ "resource": "baremetalhosts/status" }), true),
            (json!({ "resource": "secrets" }), false),
            (json!({ "name": "worker-*" }), true),
            (json!({ "name": "*-1" }), false),
            (json!({ "client": "operator" }), true),
            (json!({ "client": "kubectl" }), false),
            (json!({ "nth": 2 }), false),
            (json!({ "count": 0 }), false),
        ] {
            let mut faults = Faults::default();
            let id = faults.begin(read(json!({ "kind": "status", "code": 503, "on": on })));
            let blow = faults.on_request(sight(Verb::Update, "status", "worker-0"));
            assert_eq!(blow, struck.then_some(Blow::Refuse(503)), "{on}");
            assert_eq!(faults.end(id), Some(u64::from(struck)), "{on}");
        }
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*b", "ab", true),
            ("ab*b", "ab", false),
            ("*a*", "bab", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "abc", true),
            ("*é", "né", true),
            (&"*a".repeat(100), &"a".repeat(99), false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn nth_and_count_choose_among_the_matches() {
        let mut faults = Faults::default();
        faults.begin(read(json!({ "kind": "conflict", "on": { "nth": 2, "count": 2 } })));
        let mut blow = |verb| faults.on_request(sight(verb, "", "w"));
        assert_eq!(blow(Verb::Get), None, "reads do not conflict, and do not count");
        let blows = [(); 4].map(|()| blow(Verb::Update).is_some());
        assert_eq!(blows, [false, true, true, false]);
    }

    #[test]
    fn misspelt_faults_are_refused() {
        for bad in [
            json!({ "kind": "explode" }),
            json!({ "kind": "status" }),
            json!({ "kind": "reset", "on": { "nmae": "x" } }),
            json!({ "kind": "reset", "code": 3 }),
        ] {
            assert!(serde_json::from_value::<Fault>(bad.clone()).is_err(), "{bad}");
        }
    }
}
