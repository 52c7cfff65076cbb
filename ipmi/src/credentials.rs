//! Names, passwords and keys, within their limits and out of sight.

use std::fmt;

/// The longest user name, in bytes (22.28).
pub(crate) const LONGEST_NAME: usize = 16;

/// The longest password and BMC key K_G, in bytes (22.30, 13.31).
pub(crate) const LONGEST_SECRET: usize = 20;

/// A password or key: at most 20 bytes, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, CredentialsError> {
        let bytes = bytes.into();
        if bytes.len() > LONGEST_SECRET { Err(CredentialsError::Secret) } else { Ok(Self(bytes)) }
    }

    /// The bytes, for the algorithms that need them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Who wants a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: Secret,
    kg: Option<Secret>,
}

impl Credentials {
    /// A user and their password.
    pub fn new(user: impl Into<String>, password: impl Into<Vec<u8>>) -> Result<Self, CredentialsError> {
        let user = user.into();
        if user.len() > LONGEST_NAME {
            return Err(CredentialsError::Name);
        }
        Ok(Self { user, password: Secret::new(password)?, kg: None })
    }

    /// The same with the BMC's own key K_G, where one is set (13.33).
    pub fn with_kg(self, kg: impl Into<Vec<u8>>) -> Result<Self, CredentialsError> {
        Ok(Self { kg: Some(Secret::new(kg)?), ..self })
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn password(&self) -> &Secret {
        &self.password
    }

    /// The key that the session key is made with: K_G, or else the password (13.31).
    pub(crate) fn session_secret(&self) -> &Secret {
        self.kg.as_ref().unwrap_or(&self.password)
    }
}

/// Why credentials can't be used with IPMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The name is too long.
    #[error("use a user name of more than {LONGEST_NAME} bytes")]
    Name,
    /// The password or key is too long.
    #[error("use a password or key of more than {LONGEST_SECRET} bytes")]
    Secret,
}
