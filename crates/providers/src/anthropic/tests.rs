use super::*;

#[test]
fn features_and_versions_are_named_once() {
    let mut config = AnthropicConfig::new("http://localhost/v1", "m");
    assert_eq!((config.version(), config.betas(None)), (Some(VERSION), None));
    config.betas = vec!["one".into(), "two".into()];
    config.endpoint.headers = vec![
        ("Anthropic-Beta".into(), "two, three".into()),
        ("Anthropic-Version".into(), "2026-10-21".into()),
        ("x-title".into(), "t".into()),
    ];
    assert_eq!(config.betas(Some("one")).as_deref(), Some("two,three,one"));
    assert_eq!(config.version(), None);
    let names: Vec<_> = config.secret_headers().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Anthropic-Version", "x-title"]);
}
