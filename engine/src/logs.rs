//! The log lines of a world become records, with the host whose task logged.

use std::{fmt, fmt::Write as _, sync::Arc};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::{network::Shared, record::What, scope};

/// A layer that records the lines that reach it.
pub(crate) struct Recording(pub(crate) Arc<Shared>);

impl<S: Subscriber> Layer<S> for Recording {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let host = scope::current().map(|place| self.0.state().hosts[place.host].name.clone());
        let mut message = Message::default();
        event.record(&mut message);
        self.0.fact(What::Log {
            host: host.unwrap_or_default(),
            level: metadata.level().to_string(),
            target: metadata.target().to_owned(),
            message: message.0,
        });
    }
}

/// A line's message and fields as one text.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let gap = if self.0.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{gap}{value:?}"),
            name => write!(self.0, "{gap}{name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
