//! The conductor's side of the agent's command protocol.
//!
//! The agent keeps a list of the commands it was given and of how they ended; the conductor reads the last one at each
//! heartbeat. A connection that fails is tried again as often as the settings say.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;
use wire::{Host, http::Timeouts};

use crate::{
    driver::requests::{Answer, Failure, Requests},
    settings::Settings,
};

/// How a command stands, as the agent reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommandStatus {
    pub(crate) id: String,
    /// Without the extension: `execute_clean_step`.
    #[serde(rename = "command_name")]
    pub(crate) name: String,
    #[serde(rename = "command_params", default)]
    pub(crate) params: Value,
    #[serde(rename = "command_status")]
    pub(crate) progress: Progress,
    #[serde(rename = "command_error", default)]
    pub(crate) error: Option<CommandError>,
    #[serde(rename = "command_result", default)]
    pub(crate) result: Value,
}

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Progress {
    Running,
    Succeeded,
    Failed,
    /// The agent's hardware managers are not those that the steps were asked of.
    CleanVersionMismatch,
}

/// Why a command failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CommandError {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) code: u16,
    pub(crate) message: String,
    /// What Ironic quotes.
    pub(crate) details: String,
}

/// Why the agent did not take a command, or did not tell of its commands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// No connection, or no answer in time.
    #[error("connect to the agent for {command}: {failure}")]
    Connection { command: String, failure: Failure },
    /// The agent is executing another command.
    #[error("give the agent {command} while it executes another: {error}")]
    Busy { command: String, error: String },
    /// The agent answered an error.
    #[error("get the agent to do {command}: status {status}, {error}")]
    Refused { command: String, status: u16, error: String },
    /// The agent's answer makes no sense.
    #[error("understand the agent's answer to {command}: {answer}")]
    Answer { command: String, answer: String },
}

impl AgentError {
    /// Ironic's words for it, as they stand in `last_error`.
    pub(crate) fn in_words(&self, node: Uuid) -> String {
        match self {
            Self::Connection { command, failure } => format!(
                "Connection to agent failed: Failed to connect to the agent running on node {node} for invoking command {command}. Error: {failure}"
            ),
            Self::Busy { command, error } => format!(
                "Node {node} command \"{command}\" failed. Agent is presently executing a command. Error {error}"
            ),
            Self::Refused { status, error, .. } => {
                format!("Agent API for node {node} returned HTTP status code {status} with error: {error}")
            }
            Self::Answer { command, answer } => format!(
                "Unable to decode response as JSON.\nRequest URL: {command}\nRequest body: \"\"\nResponse status code: 200\nResponse: \"{answer}\""
            ),
        }
    }
}

/// Sends commands to agents.
#[derive(Clone)]
pub(crate) struct AgentClient {
    requests: Requests,
    settings: Arc<Settings>,
}

impl AgentClient {
    pub(crate) fn new(host: Host, settings: Arc<Settings>) -> Self {
        let limit = settings.agent.command_timeout;
        let requests = Requests::new(&host, Timeouts { connect: limit, read: limit })
            .telling(settings.release.connection_errors);
        Self { requests, settings }
    }

    /// Gives the agent a command, like `clean.get_clean_steps`. With `wait` the answer comes when the command has
    /// ended, else at once.
    pub(crate) async fn command(
        &self,
        callback_url: &str,
        token: &str,
        name: &str,
        params: Value,
        wait: bool,
    ) -> Result<CommandStatus, AgentError> {
        let url = commands(callback_url, &format!("?wait={wait}&agent_token={token}"));
        let body = json!({ "name": name, "params": params }).to_string();
        let answer = self.exchange(name, Method::POST, &url, body.into()).await?;
        decode(name, &answer)
    }

    /// The commands that the agent was given since it started, oldest first.
    pub(crate) async fn statuses(
        &self,
        callback_url: &str,
        token: &str,
    ) -> Result<Vec<CommandStatus>, AgentError> {
        #[derive(Deserialize)]
        struct List {
            commands: Vec<CommandStatus>,
        }
        let name = "get_commands_status";
        let url = commands(callback_url, &format!("?agent_token={token}"));
        let answer = self.exchange(name, Method::GET, &url, Bytes::new()).await?;
        decode::<List>(name, &answer).map(|list| list.commands)
    }

    async fn exchange(
        &self,
        command: &str,
        method: Method,
        url: &str,
        body: Bytes,
    ) -> Result<Answer, AgentError> {
        let command = command.to_owned();
        let mut attempt = 1;
        let answer = loop {
            let request = Request::builder()
                .method(method.clone())
                .uri(url)
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone());
            let Ok(request) = request else {
                return Err(AgentError::Answer {
                    command,
                    answer: "the callback address is no URL".to_owned(),
                });
            };
            match self.requests.send(request).await {
                Ok(answer) => break answer,
                Err(failure) if attempt >= self.settings.agent.max_command_attempts => {
                    return Err(AgentError::Connection { command, failure });
                }
                Err(failure) => tracing::debug!(command, attempt, %failure, "the agent does not answer"),
            }
            attempt += 1;
        };
        if answer.status.as_u16() < 400 {
            return Ok(answer);
        }
        let error = complaint(&answer.body);
        match answer.status {
            StatusCode::CONFLICT => Err(AgentError::Busy { command, error }),
            status => Err(AgentError::Refused { command, status: status.as_u16(), error }),
        }
    }
}

fn commands(callback_url: &str, query: &str) -> String {
    format!("{}/v1/commands/{query}", callback_url.trim_end_matches('/'))
}

fn decode<T: serde::de::DeserializeOwned>(command: &str, answer: &Answer) -> Result<T, AgentError> {
    serde_json::from_slice(&answer.body).map_err(|_| AgentError::Answer {
        command: command.to_owned(),
        answer: String::from_utf8_lossy(&answer.body).into_owned(),
    })
}

/// What an error body of the agent says.
fn complaint(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = ["faultstring", "details", "message"].iter().find_map(|key| body.get(key)?.as_str());
    text.unwrap_or("None").to_owned()
}
