//! Redfish's error answers: messages of the Base registry (DSP8011) in a DSP0266 section 8.6 error body.

use http::StatusCode;
use serde_json::{Value, json};

/// The registry and version that message ids are of.
const REGISTRY: &str = "Base.1.18";

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No credentials, or wrong ones.
    Unauthorized,
    /// There is no such resource.
    NotFound { uri: String },
    /// The resource does not have this method.
    MethodNotAllowed,
    /// The body is not a JSON object.
    MalformedJson,
    /// The body is too long.
    TooLarge,
    /// A property that the resource does not have.
    PropertyUnknown { name: String },
    /// A property that cannot be changed.
    PropertyNotWritable { name: String },
    /// A property that must be there.
    PropertyMissing { name: String },
    /// A property of the wrong JSON type.
    PropertyValueType { name: String, value: String },
    /// A property with a value that is not one of those allowed.
    PropertyValueNotInList { name: String, value: String },
    /// Nothing that could be changed was in the request.
    NoOperation,
    /// An action's parameter that must be there.
    ActionParameterMissing { action: &'static str, name: &'static str },
    /// A parameter that the action does not have.
    ActionParameterUnknown { action: &'static str, name: String },
    /// A parameter of the wrong JSON type.
    ActionParameterValueType { action: &'static str, name: &'static str, value: String },
    /// A parameter with a value that is not one of those allowed.
    ActionParameterValueNotInList { action: &'static str, name: &'static str, value: String },
    /// A parameter with a value that this BMC cannot use.
    ActionParameterValueFormat { action: &'static str, name: &'static str, value: String },
    /// The system is off.
    ResourceInStandby,
    /// Something else is there already.
    ResourceInUse,
    /// The image cannot be reached.
    AccessDenied { uri: String },
    /// `If-Match` does not match.
    PreconditionFailed,
    /// A query parameter that this service does not know.
    QueryNotSupported { name: String },
    /// `OData-Version` is not 4.0.
    VersionNotSupported,
    /// Whatever a fault says.
    General { status: StatusCode },
}

impl Problem {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MalformedJson
            | Self::PropertyUnknown { .. }
            | Self::PropertyNotWritable { .. }
            | Self::PropertyMissing { .. }
            | Self::PropertyValueType { .. }
            | Self::PropertyValueNotInList { .. }
            | Self::NoOperation
            | Self::ActionParameterMissing { .. }
            | Self::ActionParameterUnknown { .. }
            | Self::ActionParameterValueType { .. }
            | Self::ActionParameterValueNotInList { .. }
            | Self::ActionParameterValueFormat { .. }
            | Self::AccessDenied { .. } => StatusCode::BAD_REQUEST,
            Self::ResourceInStandby | Self::ResourceInUse => StatusCode::CONFLICT,
            Self::PreconditionFailed | Self::VersionNotSupported => StatusCode::PRECONDITION_FAILED,
            Self::QueryNotSupported { .. } => StatusCode::NOT_IMPLEMENTED,
            Self::General { status } => *status,
        }
    }

    /// The error body.
    pub(crate) fn body(&self) -> Value {
        let Message { key, args, property, severity, resolution } = self.message();
        let id = format!("{REGISTRY}.{key}");
        let text = self.text();
        let mut info = json!({
            "@odata.type": "#Message.v1_1_2.Message",
            "MessageId": id,
            "Message": text,
            "MessageArgs": args,
            "MessageSeverity": severity,
            "Severity": severity,
            "Resolution": resolution,
        });
        if let Some(name) = property {
            info["RelatedProperties"] = json!([format!("#/{name}")]);
        }
        json!({ "error": { "code": id, "message": text, "@Message.ExtendedInfo": [info] } })
    }

    fn text(&self) -> String {
        match self {
            Self::Unauthorized => "There is no valid session established with the implementation.".to_owned(),
            Self::NotFound { uri } => format!("The resource at the URI '{uri}' was not found."),
            Self::MethodNotAllowed => "The HTTP method is not allowed on this resource.".to_owned(),
            Self::MalformedJson => {
                "The request body submitted was malformed JSON and could not be parsed by the receiving service.".to_owned()
            }
            Self::TooLarge => "The supplied payload exceeds the maximum size supported by the service.".to_owned(),
            Self::PropertyUnknown { name } => {
                format!("The property {name} is not in the list of valid properties for the resource.")
            }
            Self::PropertyNotWritable { name } => {
                format!("The property {name} is a read-only property and cannot be assigned a value.")
            }
            Self::PropertyMissing { name } => {
                format!("The property {name} is a required property and must be included in the request.")
            }
            Self::PropertyValueType { name, value } => format!(
                "The value '{value}' for the property {name} is not a type that the property can accept."
            ),
            Self::PropertyValueNotInList { name, value } => format!(
                "The value '{value}' for the property {name} is not in the list of acceptable values."
            ),
            Self::NoOperation => {
                "The request body submitted contain no data to act upon and no changes to the resource took place.".to_owned()
            }
            Self::ActionParameterMissing { action, name } => {
                format!("The action {action} requires the parameter {name} to be present in the request body.")
            }
            Self::ActionParameterUnknown { action, name } => {
                format!("The action {action} was submitted with the invalid parameter {name}.")
            }
            Self::ActionParameterValueType { action, name, value } => format!(
                "The value '{value}' for the parameter {name} in the action {action} is not a type that the parameter can accept."
            ),
            Self::ActionParameterValueNotInList { action, name, value } => format!(
                "The value '{value}' for the parameter {name} in the action {action} is not in the list of acceptable values."
            ),
            Self::ActionParameterValueFormat { action, name, value } => format!(
                "The value '{value}' for the parameter {name} in the action {action} is not in a format that the parameter can accept."
            ),
            Self::ResourceInStandby => {
                "The request could not be performed because the resource is in standby.".to_owned()
            }
            Self::ResourceInUse => {
                "The change to the requested resource failed because the resource is in use or in transition.".to_owned()
            }
            Self::AccessDenied { uri } => {
                format!("While attempting to establish a connection to '{uri}', the service denied access.")
            }
            Self::PreconditionFailed => "The ETag supplied did not match the current ETag of the resource.".to_owned(),
            Self::QueryNotSupported { name } => {
                format!("The query parameter '{name}' is not supported on the requested resource.")
            }
            Self::VersionNotSupported => "The OData-Version of the request is not supported.".to_owned(),
            Self::General { .. } => {
                "A general error has occurred. See Resolution for information on how to resolve the error.".to_owned()
            }
        }
    }

    fn message(&self) -> Message {
        let critical = |key, args: Vec<String>, resolution| Message {
            key,
            args,
            property: None,
            severity: "Critical",
            resolution,
        };
        let warning = |key, args: Vec<String>, resolution| Message {
            key,
            args,
            property: None,
            severity: "Warning",
            resolution,
        };
        let of = |name: &str, message: Message| Message { property: Some(name.to_owned()), ..message };
        match self {
            Self::Unauthorized => {
                critical("NoValidSession", vec![], "Establish a session before attempting any operations.")
            }
            Self::NotFound { uri } => critical(
                "ResourceMissingAtURI",
                vec![uri.clone()],
                "Place a valid resource at the URI or correct the URI and resubmit the request.",
            ),
            Self::MethodNotAllowed => {
                critical("OperationNotAllowed", vec![], "Use one of the methods in the Allow header.")
            }
            Self::MalformedJson => critical(
                "MalformedJSON",
                vec![],
                "Ensure that the request body is valid JSON and resubmit the request.",
            ),
            Self::TooLarge => critical("PayloadTooLarge", vec![], "Send a smaller body."),
            Self::PropertyUnknown { name } => of(
                name,
                warning(
                    "PropertyUnknown",
                    vec![name.clone()],
                    "Remove the unknown property from the request body and resubmit the request.",
                ),
            ),
            Self::PropertyNotWritable { name } => of(
                name,
                warning(
                    "PropertyNotWritable",
                    vec![name.clone()],
                    "Remove the property from the request body and resubmit the request.",
                ),
            ),
            Self::PropertyMissing { name } => of(
                name,
                warning(
                    "PropertyMissing",
                    vec![name.clone()],
                    "Ensure that the property is in the request body and resubmit the request.",
                ),
            ),
            Self::PropertyValueType { name, value } => of(
                name,
                warning(
                    "PropertyValueTypeError",
                    vec![value.clone(), name.clone()],
                    "Correct the value of the property and resubmit the request.",
                ),
            ),
            Self::PropertyValueNotInList { name, value } => of(
                name,
                warning(
                    "PropertyValueNotInList",
                    vec![value.clone(), name.clone()],
                    "Choose a value from the enumeration list and resubmit the request.",
                ),
            ),
            Self::NoOperation => {
                warning("NoOperation", vec![], "Add properties to the request body and resubmit the request.")
            }
            Self::ActionParameterMissing { action, name } => critical(
                "ActionParameterMissing",
                vec![(*action).to_owned(), (*name).to_owned()],
                "Supply the action with the required parameter and resubmit the request.",
            ),
            Self::ActionParameterUnknown { action, name } => warning(
                "ActionParameterUnknown",
                vec![(*action).to_owned(), name.clone()],
                "Correct the invalid parameter and resubmit the request.",
            ),
            Self::ActionParameterValueType { action, name, value } => warning(
                "ActionParameterValueTypeError",
                vec![value.clone(), (*name).to_owned(), (*action).to_owned()],
                "Correct the value of the parameter and resubmit the request.",
            ),
            Self::ActionParameterValueNotInList { action, name, value } => warning(
                "ActionParameterValueNotInList",
                vec![value.clone(), (*name).to_owned(), (*action).to_owned()],
                "Choose a value from the enumeration list and resubmit the request.",
            ),
            Self::ActionParameterValueFormat { action, name, value } => warning(
                "ActionParameterValueFormatError",
                vec![value.clone(), (*name).to_owned(), (*action).to_owned()],
                "Correct the value of the parameter and resubmit the request.",
            ),
            Self::ResourceInStandby => critical(
                "ResourceInStandby",
                vec![],
                "Ensure that the resource is in the correct power state and resubmit the request.",
            ),
            Self::ResourceInUse => {
                warning("ResourceInUse", vec![], "Remove the condition and resubmit the request.")
            }
            Self::AccessDenied { uri } => critical(
                "AccessDenied",
                vec![uri.clone()],
                "Attempt to ensure that the URI is correct and that the service has the appropriate credentials.",
            ),
            Self::PreconditionFailed => critical(
                "PreconditionFailed",
                vec![],
                "Get the resource again and resubmit the request with its present ETag.",
            ),
            Self::QueryNotSupported { name } => warning(
                "QueryParameterUnsupported",
                vec![name.clone()],
                "Remove the query parameter and resubmit the request.",
            ),
            Self::VersionNotSupported => {
                critical("HeaderInvalid", vec!["OData-Version".to_owned()], "Use OData-Version 4.0.")
            }
            Self::General { .. } => critical("GeneralError", vec![], "None."),
        }
    }
}

/// A message, but for its text.
struct Message {
    key: &'static str,
    args: Vec<String>,
    property: Option<String>,
    severity: &'static str,
    resolution: &'static str,
}
