//! Options as MariaDB 11.4 and later offer them: each a variable of the server, with a type.
//!
//! The server names them `wsrep_provider_` and the option's name with `_` for `.`. What it sets
//! comes back as `name=value`: yes/no, decimal numbers, and durations as decimal seconds, since it
//! has no type for them. Galera's library does the same.

use super::{Options, SPECS, Settable, Slot, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: &'static str,
    pub value: ParameterValue,
    pub is_read_only: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    Bool(bool),
    Integer(i64),
    /// A number; a duration in seconds.
    Real(f64),
    Text(String),
}

impl Options {
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |(spec, slot): (&super::OptionSpec, &Slot)| Parameter {
            name: spec.name,
            value: slot.parameter_value(),
            is_read_only: spec.settable == Settable::AtStart,
        };
        SPECS.iter().zip(&self.slots).map(parameter).collect()
    }
}

impl Slot {
    fn parameter_value(&self) -> ParameterValue {
        match &self.value {
            Value::Bool(is_on) => ParameterValue::Bool(*is_on),
            Value::Int(number) => ParameterValue::Integer(*number),
            Value::Real(number) => ParameterValue::Real(*number),
            Value::Duration(duration) => ParameterValue::Real(duration.as_secs_f64()),
            Value::Address(_) | Value::Word(_) | Value::Region(_) | Value::Text(_) => {
                ParameterValue::Text(self.text.clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Defaults;

    /// Text that MariaDB 11.8 writes for a value that it sets.
    fn written(value: &ParameterValue) -> String {
        match value {
            ParameterValue::Bool(true) => "yes".to_owned(),
            ParameterValue::Bool(false) => "no".to_owned(),
            ParameterValue::Integer(number) => number.to_string(),
            ParameterValue::Real(number) => format!("{number:.6}"),
            ParameterValue::Text(text) => text.clone(),
        }
    }

    #[test]
    fn every_option_is_a_parameter_and_takes_back_its_own_value() {
        let (mut options, _) = Options::new(Defaults::default(), "").unwrap();
        let parameters = options.parameters();
        assert_eq!(parameters.len(), SPECS.len());
        for parameter in &parameters {
            let text = format!("{}={}", parameter.name, written(&parameter.value));
            let update = options.set(&text);
            assert!(update.is_ok(), "{text}: {update:?}");
        }
        assert_eq!(options.parameters(), parameters);
    }

    #[test]
    fn durations_are_seconds_and_what_is_set_at_start_is_read_only() {
        let (options, _) = Options::new(Defaults::default(), "evs.suspect_timeout=PT1M").unwrap();
        let parameters = options.parameters();
        let named = |name| parameters.iter().find(|p| p.name == name).unwrap();
        let timeout = named("evs.suspect_timeout");
        assert_eq!(timeout.value, ParameterValue::Real(60.0));
        assert!(!timeout.is_read_only);
        assert!(named("synod.log_dir").is_read_only);
        let trigger = named("pc.bootstrap");
        assert_eq!(trigger.value, ParameterValue::Bool(false));
        assert!(!trigger.is_read_only);
    }
}
