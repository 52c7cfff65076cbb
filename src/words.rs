//! Closed sets of words that travel as strings: states, error types, modes.
//!
//! One macro gives such an enum its spelling in one place; JSON, `Display` and `FromStr` all use it.

/// A text that is none of the words of a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read {text:?} as one of {known}")]
pub struct UnknownWord {
    /// What was found.
    pub text: String,
    /// What would have been understood, separated by commas.
    pub known: String,
}

/// Defines an enum whose variants are words. The first word of a variant is how it is written; further ones are
/// also understood.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $( $(#[$variant_attribute:meta])* $variant:ident => $word:literal $(| $alias:literal)* ),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[$variant_attribute])* $variant, )+
        }

        impl $name {
            /// All of them, in the order of their definition.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// How it is spelled.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $word $(| $alias)* => Ok(Self::$variant), )+
                    _ => Err($crate::words::UnknownWord {
                        text: text.to_owned(),
                        known: Self::ALL.iter().map(|word| format!("{:?}", word.as_str())).collect::<Vec<_>>().join(", "),
                    }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use words;
