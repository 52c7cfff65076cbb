//! A watch's stream: one JSON line for each event, until its time is up.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use serde_json::{Value, json};
use wire::{Host, Instant};

use crate::{
    KubeApi,
    cluster::WatchStart,
    fault::{Sight, WatchEnd},
    object,
    request::{Form, Verb},
    status::Failure,
    store::Happening,
    table,
};

/// How often a watcher that asked for bookmarks gets one, if there is anything new to mark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A watch without a time limit of its own ends after 30 to 60 minutes (`--min-request-timeout`).
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1800);

/// One open watch.
struct Watcher {
    api: KubeApi,
    host: Host,
    start: WatchStart,
    client: String,
    /// All changes up to here have been told, or were not for this watcher.
    cursor: u64,
    /// The last revision that the client has seen.
    told: u64,
    ends_at: Instant,
    bookmark_at: Instant,
    /// Which faults have been looked at; see `State::fault_count`.
    faults_seen: Option<u64>,
    shows_columns: bool,
    begun: bool,
    ended: bool,
}

/// The body of a watch's answer. `spread` is from 0 to 1 and spreads the ends of watches without a time limit.
pub(crate) fn body(api: KubeApi, host: Host, start: WatchStart, client: String, spread: f64) -> Body {
    let timeout = start.timeout.unwrap_or_else(|| SHORTEST_TIMEOUT.mul_f64(1.0 + spread));
    let now = host.now();
    let watcher = Watcher {
        cursor: start.after,
        told: start.after,
        ends_at: now + timeout,
        bookmark_at: now + BOOKMARK_EVERY,
        faults_seen: None,
        shows_columns: true,
        begun: false,
        ended: false,
        api,
        host,
        start,
        client,
    };
    Body::from_stream(futures::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watcher))
    }))
}

impl Watcher {
    /// The next lines; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if !self.begun {
            self.begun = true;
            let lines = self.beginning();
            if !lines.is_empty() {
                return Some(lines.into());
            }
        }
        loop {
            // Registered before looking, so that no change falls between looking and waiting.
            let api = self.api.clone();
            let changed = api.changed().notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let lines = self.look();
            if self.ended && lines.is_empty() {
                return None;
            }
            if !lines.is_empty() {
                return Some(lines.into());
            }
            let (host, until) = (self.host.clone(), self.ends_at.min(self.bookmark_at));
            tokio::select! {
                biased;
                () = changed => {}
                () = host.sleep_until(until) => {}
            }
            let now = self.host.now();
            let over = now >= self.ends_at;
            if over || now >= self.bookmark_at {
                self.bookmark_at = now + BOOKMARK_EVERY;
                self.ended = over;
                if self.start.bookmarks && self.cursor > self.told {
                    self.told = self.cursor;
                    return Some(self.line("BOOKMARK", self.bookmark(false)).into());
                }
            }
        }
    }

    fn beginning(&mut self) -> String {
        if let Some(refused) = &self.start.refused {
            self.ended = true;
            return self.line("ERROR", refused.to_value());
        }
        let initial = std::mem::take(&mut self.start.initial);
        let mut lines: String = initial
            .iter()
            .map(|object| self.event(Happening::Added, Arc::unwrap_or_clone(Arc::clone(object))))
            .collect();
        if self.start.marks_initial {
            lines += &self.line("BOOKMARK", self.bookmark(true));
        }
        lines
    }

    /// What has changed, as lines; may end the watch.
    fn look(&mut self) -> String {
        let api = self.api.clone();
        let mut state = api.state();
        let resource = Arc::clone(&self.start.resource);
        let client = self.client.clone();
        let of_watch = Sight {
            verb: Verb::Watch,
            resource: &resource.plural,
            subresource: "",
            name: "",
            client: &client,
        };
        if self.faults_seen != Some(state.fault_count) {
            self.faults_seen = Some(state.fault_count);
            match state.faults.ends_watch(of_watch) {
                None => {}
                Some(WatchEnd::Closed) => {
                    self.ended = true;
                    return String::new();
                }
                Some(WatchEnd::Expired) => {
                    self.ended = true;
                    let revision = state.cluster.store.revision();
                    return self.line("ERROR", Failure::too_old(self.cursor, revision).to_value());
                }
            }
        }
        let stored_as = resource.stored_as();
        // A watcher that is too slow for the window is told to begin anew.
        if let Err(failure) = state.cluster.store.check_known(&stored_as, self.cursor) {
            self.ended = true;
            return self.line("ERROR", failure.to_value());
        }
        let seen: Vec<(Happening, String, u64, Value)> = state
            .cluster
            .store
            .seen_since(&stored_as, &self.start.namespace, &self.start.selector, self.cursor)
            .map(|(happening, change)| {
                (happening, change.key.name.clone(), change.revision, change.told(happening))
            })
            .collect();
        self.cursor = self.cursor.max(state.cluster.store.revision());
        let mut lines = String::new();
        for (happening, name, revision, object) in seen {
            if state.faults.drops(Sight { name: &name, ..of_watch }) {
                continue;
            }
            self.told = revision;
            lines += &self.event(happening, object);
        }
        lines
    }

    fn event(&mut self, happening: Happening, stored: Value) -> String {
        let object = match self.start.form {
            Form::Plain | Form::Discovery(_) | Form::OpenApiProto => self.start.resource.show(&stored),
            Form::Partial => table::partial(&stored),
            Form::Table => {
                let metadata =
                    json!({ "resourceVersion": object::text(&stored, &["metadata", "resourceVersion"]) });
                let columns = std::mem::take(&mut self.shows_columns);
                let now = self.host.date();
                table::to_value(&self.start.resource, &[&stored], metadata, now, self.start.include, columns)
            }
        };
        self.line(happening.word(), object)
    }

    fn bookmark(&self, ends_initial: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": self.cursor.to_string() });
        if ends_initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        if self.start.form == Form::Table {
            return table::to_value(
                &self.start.resource,
                &[],
                metadata,
                self.host.date(),
                self.start.include,
                false,
            );
        }
        let mut object = json!({ "metadata": metadata });
        self.start.resource.stamp(&mut object);
        object
    }

    fn line(&self, kind: &str, object: Value) -> String {
        format!("{}\n", json!({ "type": kind, "object": object }))
    }
}
