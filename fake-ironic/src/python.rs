//! Values as Python writes them, because Ironic's error texts hold such.

use serde_json::Value;

/// `repr()` of a JSON value.
pub(crate) fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => repr_text(text),
        Value::Array(items) => format!("[{}]", items.iter().map(repr).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{}: {}", repr_text(key), repr(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// `repr()` of a text.
pub(crate) fn repr_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter == quote => {
                out.push('\\');
                out.push(letter);
            }
            letter => out.push(letter),
        }
    }
    out.push(quote);
    out
}

/// `repr()` of a dictionary that was written in this order.
pub(crate) fn repr_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a Value)>) -> String {
    let pairs = pairs.into_iter().map(|(key, value)| format!("{}: {}", repr_text(key), repr(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_read_as_in_python() {
        for (value, text) in [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!("it's"), "\"it's\""),
            (json!("a\\b"), "'a\\\\b'"),
            (json!({ "a": [1, null, "x"] }), "{'a': [1, None, 'x']}"),
        ] {
            assert_eq!(repr(&value), text);
        }
    }
}
