use serde_json::{Value, json};

use super::merge::SettingsFileChange;
use super::*;

fn access(token: Option<&str>) -> GatewayAccess {
    GatewayAccess {
        root: "http://127.0.0.1:4400".to_owned(),
        model: "qwen3".to_owned(),
        token_file: token.map(PathBuf::from),
        home: "/home/me".into(),
        folder: "/data/wrapped".into(),
    }
}

fn printed(name: &str, access: &GatewayAccess) -> String {
    let client = clients::named(name).unwrap();
    let place = CliEnvironment { home: Some("/home/me".into()), ..CliEnvironment::default() };
    shown(&client, &(client.setup)(access).unwrap(), access, &place)
}

#[test]
fn every_client_is_told_where_to_go() {
    for name in [
        "claude",
        "codex",
        "opencode",
        "qwen",
        "aider",
        "pi",
        "continue",
        "cline",
        "mini",
        "openai",
        "anthropic",
    ] {
        let text = printed(name, &access(None));
        assert!(text.contains("http://127.0.0.1:4400"), "{name}: {text}");
        let is_anthropics = matches!(name, "claude" | "anthropic");
        assert_eq!(text.contains("127.0.0.1:4400/v1"), !is_anthropics, "{name}: {text}");
    }
    assert!(clients::named("gemini").is_err());
    assert!(clients::named("cluade").err().unwrap().message().contains("did you mean claude?"));
}

#[test]
fn what_is_printed() {
    insta::assert_snapshot!(printed("claude", &access(None)), @r##"
    # Claude Code (2.1)
    export ANTHROPIC_BASE_URL=http://127.0.0.1:4400
    export ANTHROPIC_AUTH_TOKEN=none
    export ANTHROPIC_MODEL=qwen3
    export ANTHROPIC_SMALL_FAST_MODEL=qwen3
    export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    claude

    # or, in place of the lines above, in ~/.claude/settings.json
    {
      "env": {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:4400",
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "qwen3",
        "ANTHROPIC_SMALL_FAST_MODEL": "qwen3",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"
      }
    }
    "##);
    insta::assert_snapshot!(printed("codex", &access(Some("/data/token"))), @r##"
    # Codex (0.169)
    export LONGHAUL_TOKEN="$(cat /data/token)"
    codex

    # in ~/.codex/config.toml
    model = "qwen3"
    model_provider = "longhaul"

    [model_providers.longhaul]
    name = "Longhaul"
    base_url = "http://127.0.0.1:4400/v1"
    wire_api = "responses"
    env_key = "LONGHAUL_TOKEN"
    "##);
    insta::assert_snapshot!(printed("opencode", &access(Some("/data/token"))), @r##"
    # opencode (1.18)
    opencode

    # in ~/.config/opencode/opencode.json
    {
      "model": "longhaul/qwen3",
      "provider": {
        "longhaul": {
          "npm": "@ai-sdk/openai-compatible",
          "name": "Longhaul",
          "options": {
            "baseURL": "http://127.0.0.1:4400/v1",
            "apiKey": "{file:/data/token}"
          },
          "models": {
            "qwen3": {
              "name": "qwen3",
              "limit": {
                "context": 1000000,
                "output": 32000
              }
            }
          }
        }
      }
    }
    "##);
    insta::assert_snapshot!(printed("qwen", &access(None)), @r##"
    # Qwen Code (0.15)
    export OPENAI_BASE_URL=http://127.0.0.1:4400/v1
    export OPENAI_API_KEY=none
    export OPENAI_MODEL=qwen3
    qwen --auth-type openai

    # or, in place of the lines above, in ~/.qwen/.env
    OPENAI_BASE_URL=http://127.0.0.1:4400/v1
    OPENAI_API_KEY=none
    OPENAI_MODEL=qwen3

    # and in ~/.qwen/settings.json
    {
      "security": {
        "auth": {
          "selectedType": "openai"
        }
      }
    }
    "##);
    insta::assert_snapshot!(printed("aider", &access(None)), @r##"
    # aider (0.86)
    export OPENAI_API_BASE=http://127.0.0.1:4400/v1
    export OPENAI_API_KEY=none
    aider --model openai/qwen3

    # or, in place of the lines above, in ~/.aider.conf.yml
    openai-api-base: "http://127.0.0.1:4400/v1"
    openai-api-key: "none"
    model: "openai/qwen3"
    "##);
    insta::assert_snapshot!(printed("pi", &access(None)), @r##"
    # pi (0.73)
    pi --provider longhaul --model qwen3

    # in ~/.pi/agent/models.json
    {
      "providers": {
        "longhaul": {
          "baseUrl": "http://127.0.0.1:4400/v1",
          "api": "openai-completions",
          "apiKey": "none",
          "models": [
            {
              "id": "qwen3",
              "contextWindow": 1000000,
              "maxTokens": 32000
            }
          ]
        }
      }
    }
    "##);
    insta::assert_snapshot!(printed("continue", &access(None)), @r##"
    # Continue's command line (1.5)
    cn --config /data/wrapped/continue.yaml

    # in /data/wrapped/continue.yaml
    name: Longhaul
    version: 0.0.1
    schema: v1
    models:
      - name: "qwen3"
        provider: openai
        model: "qwen3"
        apiBase: "http://127.0.0.1:4400/v1"
        apiKey: "none"
        roles: [chat, edit, apply]
    "##);
    insta::assert_snapshot!(printed("cline", &access(Some("/data/my token"))), @r##"
    # Cline's command line (3.0)
    cline auth --provider openai --apikey "$(cat '/data/my token')" --modelid qwen3 --baseurl http://127.0.0.1:4400/v1
    cline
    "##);
}

#[test]
fn the_next_step_fits_what_is_printed() {
    let place = CliEnvironment { home: Some("/home/me".into()), ..CliEnvironment::default() };
    let step = |name: &str, token: Option<&str>| {
        let client = clients::named(name).unwrap();
        next_step(&client, &(client.setup)(&access(token)).unwrap(), &place)
    };
    let qwen = "Type the lines in a shell. Or put the settings into ~/.qwen/.env and ~/.qwen/settings.json, or run \
                again with --write, and start qwen.\n";
    assert_eq!(step("qwen", None), qwen);
    let codex = "Put the settings into ~/.codex/config.toml, or run again with --write. Then ";
    assert_eq!(step("codex", None), format!("{codex}start codex.\n"));
    let with_token = format!("{codex}type the lines in a shell: that starts codex.\n");
    assert_eq!(step("codex", Some("/data/token")), with_token);
}

#[test]
fn other_keys_stay() {
    let change = SettingsFileChange::Json(json!({ "a": { "b": 1 }, "c": "x" }));
    let old = r#"{"z":[1,2],"a":{"b":0,"k":true}}"#;
    let new = change.applied(old).unwrap();
    let value: Value = serde_json::from_str(&new).unwrap();
    assert_eq!(value, json!({ "z": [1, 2], "a": { "b": 1, "k": true }, "c": "x" }));
    assert_eq!(change.applied(&new).unwrap(), new, "a second time nothing changes");
    assert!(change.applied("{ // a comment\n}").is_err() && change.applied("[]").is_err());

    let change = SettingsFileChange::Toml(vec![
        (key_path(&["model"]), "new".to_owned()),
        (key_path(&["model_providers", "longhaul", "base_url"]), "http://x/v1".to_owned()),
    ]);
    let old =
        "# mine\nmodel = \"old\" # why\n\n[model_providers.other]\nname = 'o'\n\n[tui]\ntheme = \"dark\"\n";
    let new = change.applied(old).unwrap();
    assert!(
        new.starts_with("# mine\nmodel = \"new\" # why\n\n[model_providers.other]\nname = 'o'\n"),
        "{new}"
    );
    assert!(new.contains("[model_providers.longhaul]\nbase_url = \"http://x/v1\"\n"), "{new}");
    assert!(new.contains("[tui]\ntheme = \"dark\"\n") && !new.contains("[model_providers]\n"), "{new}");
    assert_eq!(change.applied(&new).unwrap(), new);
    assert!(change.applied("model = [").is_err());

    let change = SettingsFileChange::Lines(": ", vec![("model".to_owned(), "\"new\"".to_owned())]);
    assert_eq!(
        change.applied("# mine\nmodel: old\nmodel-x: 1\n").unwrap(),
        "# mine\nmodel: \"new\"\nmodel-x: 1\n"
    );
    assert_eq!(change.applied("").unwrap(), "model: \"new\"\n");
}

fn key_path(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn words_are_quoted_for_the_shell() {
    assert_eq!(
        (quoted("a/b:1"), quoted("a b"), quoted("it's")),
        ("a/b:1".into(), "'a b'".into(), "'it'\\''s'".into())
    );
}
