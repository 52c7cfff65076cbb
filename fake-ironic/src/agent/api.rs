//! The agent's HTTP interface, by which Ironic gives it commands.

use std::sync::{Arc, Weak};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::http::Fate;

use super::command::{Commands, Rejection};

/// The agent for as long as the machine has power: connections outlive it and must notice.
pub(super) struct Life {
    commands: Weak<Commands>,
    _alive: Arc<()>,
    alive: Weak<()>,
}

impl Life {
    pub(super) fn new(commands: &Arc<Commands>) -> Self {
        let alive = Arc::new(());
        Self { commands: Arc::downgrade(commands), alive: Arc::downgrade(&alive), _alive: alive }
    }
}

#[derive(Clone)]
struct Agent {
    commands: Weak<Commands>,
    alive: Weak<()>,
}

impl Agent {
    fn commands(&self) -> Option<Arc<Commands>> {
        self.alive.upgrade().and_then(|_| self.commands.upgrade())
    }
}

#[derive(Deserialize)]
struct Parameters {
    agent_token: Option<String>,
    wait: Option<String>,
}

#[derive(Deserialize)]
struct Order {
    name: String,
    #[serde(default)]
    params: Value,
}

pub(super) fn router(life: &Life) -> Router {
    Router::new()
        .route("/v1/commands", get(list).post(give))
        .route("/v1/commands/", get(list).post(give))
        .route("/v1/commands/{id}", get(one))
        .with_state(Agent { commands: life.commands.clone(), alive: life.alive.clone() })
}

async fn list(State(agent): State<Agent>, Query(parameters): Query<Parameters>) -> Response {
    let Some(commands) = agent.commands() else { return gone() };
    if is_stranger(&commands, &parameters) {
        return stranger();
    }
    Json(json!({ "commands": commands.list() })).into_response()
}

async fn one(
    State(agent): State<Agent>,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Response {
    let Some(commands) = agent.commands() else { return gone() };
    if is_stranger(&commands, &parameters) {
        return stranger();
    }
    match commands.list().into_iter().find(|command| command.id == id) {
        Some(command) => Json(command).into_response(),
        None => error(StatusCode::NOT_FOUND, "RequestedObjectNotFoundError", "Object not found", &id),
    }
}

async fn give(State(agent): State<Agent>, Query(parameters): Query<Parameters>, body: Bytes) -> Response {
    let Some(commands) = agent.commands() else { return gone() };
    if is_stranger(&commands, &parameters) {
        return stranger();
    }
    let Ok(order) = serde_json::from_slice::<Order>(&body) else {
        return error(
            StatusCode::BAD_REQUEST,
            "InvalidContentError",
            "Invalid request body",
            "Missing command name",
        );
    };
    let wait = parameters.wait.as_deref() == Some("true");
    let given = commands.give(&order.name, order.params, wait).await;
    drop(commands);
    match given {
        // The machine may have gone down while the command ran.
        _ if agent.commands().is_none() => gone(),
        Ok(command) => Json(command).into_response(),
        Err(Rejection::Busy(name)) => {
            let text = format!("Agent is busy executing another command: {name}");
            error(StatusCode::CONFLICT, "AgentIsBusy", "Agent is busy", &text)
        }
        Err(Rejection::Unknown(name)) => {
            let text = format!("Unknown command: {name}");
            error(StatusCode::BAD_REQUEST, "InvalidCommandError", "Invalid command", &text)
        }
    }
}

/// Whether the sender does not know the token, once there is one.
fn is_stranger(commands: &Commands, parameters: &Parameters) -> bool {
    commands.token().is_some_and(|token| parameters.agent_token != Some(token))
}

fn stranger() -> Response {
    error(StatusCode::UNAUTHORIZED, "InvalidTokenError", "Token invalid.", "Token invalid.")
}

/// An error in both shapes that readers of the agent's answers know.
fn error(status: StatusCode, kind: &str, message: &str, details: &str) -> Response {
    let body = json!({
        "faultcode": "Client", "faultstring": details,
        "type": kind, "code": status.as_u16(), "message": message, "details": details,
    });
    (status, Json(body)).into_response()
}

/// What a client sees of a machine that is off, on a connection from before.
fn gone() -> Response {
    let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
    response.extensions_mut().insert(Fate::Reset);
    response
}
