//! How the API says no: `Status` objects, worded as Kubernetes words them.
//!
//! Clients read `reason` and `code`, people read `message`, and kubectl prints the causes one by one, so all three are
//! kept as `k8s.io/apimachinery/pkg/api/errors` and `pkg/util/validation/field` make them.

use serde_json::{Value, json};

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// The HTTP status code.
    pub(crate) code: u16,
    /// One word for programs, e.g. `NotFound`; empty where Kubernetes gives none.
    pub(crate) reason: &'static str,
    /// What people read.
    pub(crate) message: String,
    /// Whom it is about, and the causes.
    pub(crate) details: Option<Value>,
}

/// What is being talked about: the plural (or, for invalid objects, the kind), its group and an object's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl About<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.to_owned() } else { format!("{}.{}", self.kind, self.group) }
    }

    fn details(&self) -> Value {
        let mut details = serde_json::Map::new();
        for (key, value) in [("name", self.name), ("group", self.group), ("kind", self.kind)] {
            if !value.is_empty() {
                details.insert(key.into(), value.into());
            }
        }
        details.into()
    }
}

/// Why one field of an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The field's path, e.g. `spec.online`.
    pub(crate) field: String,
    /// One word for programs, e.g. `FieldValueRequired`.
    pub(crate) reason: &'static str,
    /// What people read, without the path.
    pub(crate) message: String,
}

impl Cause {
    fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        Self { field: field.into(), reason, message }
    }

    /// A field that must be there is not; `hint` may be empty.
    pub(crate) fn required(field: impl Into<String>, hint: &str) -> Self {
        let message =
            if hint.is_empty() { "Required value".to_owned() } else { format!("Required value: {hint}") };
        Self::new(field, "FieldValueRequired", message)
    }

    /// A value breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, rule: impl std::fmt::Display) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {value}: {rule}"))
    }

    /// An update that does not say what it is based on. Kubernetes shows the missing revision as a Go pointer.
    pub(crate) fn no_revision() -> Self {
        let message = "Invalid value: 0x0: must be specified for an update".to_owned();
        Self::new("metadata.resourceVersion", "FieldValueInvalid", message)
    }

    /// A value is of the wrong type.
    pub(crate) fn type_invalid(field: &str, is: &str, must_be: &str) -> Self {
        let message = format!("Invalid value: \"{is}\": {field} in body must be of type {must_be}: \"{is}\"");
        Self::new(field, "FieldValueTypeInvalid", message)
    }

    /// A value is none of those allowed.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        Self::new(field, "FieldValueNotSupported", message)
    }

    /// A change that is not allowed.
    pub(crate) fn forbidden(field: impl Into<String>, rule: impl std::fmt::Display) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {rule}"))
    }

    /// A list is too long.
    pub(crate) fn too_many(field: impl Into<String>, count: usize, limit: u64) -> Self {
        Self::new(field, "FieldValueTooMany", format!("Too many: {count}: must have at most {limit} items"))
    }

    /// A text is too long.
    pub(crate) fn too_long(field: impl Into<String>, limit: u64) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: may not be more than {limit} bytes"))
    }

    /// Two entries of a list have the same key.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {value}"))
    }
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, about: About<'_>) -> Self {
        self.details = Some(about.details());
        self
    }

    pub(crate) fn not_found(about: About<'_>) -> Self {
        Self::new(404, "NotFound", format!("{} \"{}\" not found", about.qualified(), about.name)).about(about)
    }

    /// The path means nothing to this server.
    pub(crate) fn no_such_path() -> Self {
        let mut failure = Self::new(404, "NotFound", "the server could not find the requested resource");
        failure.details = Some(json!({}));
        failure
    }

    pub(crate) fn already_exists(about: About<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", about.qualified(), about.name);
        Self::new(409, "AlreadyExists", message).about(about)
    }

    /// A write that is not based on the latest version.
    pub(crate) fn conflict(about: About<'_>) -> Self {
        Self::cannot_fulfil(
            about,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A write whose other preconditions do not hold.
    pub(crate) fn precondition(about: About<'_>, what: &str, wanted: &str, is: &str) -> Self {
        let why =
            format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {is}");
        Self::cannot_fulfil(about, &why)
    }

    fn cannot_fulfil(about: About<'_>, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{}\": {why}", about.qualified(), about.name);
        Self::new(409, "Conflict", message).about(about)
    }

    /// Fields that somebody else applied.
    pub(crate) fn apply_conflict(causes: &[Cause]) -> Self {
        let list = |causes: &[Cause]| -> Vec<Value> {
            causes
                .iter()
                .map(|c| json!({ "reason": "FieldManagerConflict", "message": c.message, "field": c.field }))
                .collect()
        };
        let what: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.message, c.field)).collect();
        let plural = if causes.len() == 1 { "conflict" } else { "conflicts" };
        let message = format!("Apply failed with {} {plural}: {}", causes.len(), what.join("\n"));
        let mut failure = Self::new(409, "Conflict", message);
        failure.details = Some(json!({ "causes": list(causes) }));
        failure
    }

    pub(crate) fn forbidden(about: About<'_>, why: &str) -> Self {
        let message = format!("{} \"{}\" is forbidden: {why}", about.qualified(), about.name);
        Self::new(403, "Forbidden", message).about(about)
    }

    /// An object that breaks rules; `about.kind` is the kind here.
    pub(crate) fn invalid(about: About<'_>, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let what = match &texts[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{}\" is invalid: {what}", about.qualified(), about.name);
        let mut failure = Self::new(422, "Invalid", message).about(about);
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({ "reason": c.reason, "message": c.message, "field": c.field }))
            .collect();
        if let Some(Value::Object(details)) = &mut failure.details {
            details.insert("causes".into(), causes.into());
        }
        failure
    }

    /// A patch that does not fit its object. Kubernetes does not say why either.
    pub(crate) fn unfit_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let mut failure = Self::new(422, "Invalid", message);
        failure.details = Some(json!({}));
        failure
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut failure = Self::new(405, "MethodNotAllowed", message);
        failure.details = Some(json!({}));
        failure
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn too_large(why: &str) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
    }

    /// A watch from before the history begins.
    pub(crate) fn too_old(wanted: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {wanted} ({oldest})"))
    }

    /// A list that goes on from a revision which is no longer known.
    pub(crate) fn continue_expired() -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. \
             You must start a new list without the continue parameter.";
        Self::new(410, "Expired", message)
    }

    /// A read of a revision that is not there yet.
    pub(crate) fn too_new(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let mut failure = Self::new(504, "Timeout", format!("Timeout: {message}"));
        failure.details = Some(json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        }));
        failure
    }

    /// An error of the server, without a reason, as Go errors without a status come out.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// A status that a fault asks for.
    pub(crate) fn injected(code: u16) -> Self {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden: the server refused this request on purpose"),
            409 => ("Conflict", "the server reported a conflict"),
            429 => ("TooManyRequests", "Too many requests, please try again later."),
            500 => ("InternalError", "Internal error occurred: etcdserver: leader changed"),
            503 => ("ServiceUnavailable", "apiserver not ready"),
            504 => ("Timeout", "Timeout: request did not complete within the allotted timeout"),
            _ => ("", "the server answered so on purpose"),
        };
        let mut failure = Self::new(code, reason, message);
        if code == 429 || code == 503 {
            failure.details = Some(json!({ "retryAfterSeconds": 1 }));
        }
        failure
    }

    /// After how many seconds a client is told to try again, if it is told.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// The `Status` object that clients receive.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}
