use serde_json::json;

use super::*;

fn about(status: u16, message: &str) -> Option<PartRefusal> {
    let code = match status {
        500..=599 => ErrorCode::ThirdParty,
        404 => ErrorCode::NotFound,
        _ => ErrorCode::InvalidRequest,
    };
    read(Some(status), code, message)
}

#[test]
fn servers_name_the_kind_of_part_they_refuse() {
    use RefusedPartKind::{Content, File, Image, Reasoning, ToolSchema};
    for (status, message, kind, takes_none, most) in [
        (400, "m is not a multimodal model", Image, true, None),
        (400, "At most 1 image(s) may be provided in one prompt.", Image, false, Some(1)),
        (400, "At most 0 image(s) may be provided in one prompt.", Image, true, Some(0)),
        (
            400,
            "messages.0.content.105: too many images and documents: 105 + 0 > 100",
            Image,
            false,
            Some(100),
        ),
        (
            400,
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes",
            Image,
            false,
            None,
        ),
        // A number with a unit is no count, or 20 MB would leave 20 pictures.
        (400, "Image too large: a limit of 20 MB is in force", Image, false, None),
        (400, "The image exceeds the maximum of 8,000 pixels", Image, false, None),
        (400, "At most one image is allowed in a request", Image, false, Some(1)),
        (400, "A maximum of 100 PDF pages may be provided.", File, false, None),
        (400, "You uploaded an unsupported image. Please make sure your image is valid.", Image, false, None),
        (400, "Could not process image", Image, false, None),
        (400, "Unable to process input image. Please retry or report in https://x", Image, false, None),
        (400, "Invalid content type. image_url is only supported by certain models.", Image, true, None),
        (
            400,
            "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`",
            Image,
            true,
            None,
        ),
        // OpenRouter answers 404 if no provider of the model takes the part.
        (404, "No endpoints found that support image input", Image, true, None),
        (
            500,
            // llama.cpp without a projector fails with 500, and would fail again.
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            Image,
            true,
            None,
        ),
        (500, "cannot identify image file <_io.BytesIO object at 0x7f>", Image, false, None),
        (
            500,
            "Image size (200000000 pixels) exceeds limit of 178956970 pixels, could be decompression bomb DOS attack.",
            Image,
            false,
            None,
        ),
        (400, "The PDF specified was not valid.", File, false, None),
        (400, "The PDF specified is password protected.", File, false, None),
        (400, "The document has no pages.", File, false, None),
        (400, "messages.1.content.0: Invalid `signature` in `thinking` block", Reasoning, false, None),
        (
            400,
            "The encrypted content gAAA could not be verified. invalid_encrypted_content",
            Reasoning,
            false,
            None,
        ),
        (
            400,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            Reasoning,
            false,
            None,
        ),
        (
            400,
            "Invalid schema for function 'mcp__x__y': schema must be a JSON Schema of 'type: \"object\"'",
            ToolSchema,
            false,
            None,
        ),
        (
            400,
            "tools.3.custom.input_schema: JSON schema is invalid. It must match draft 2020-12",
            ToolSchema,
            false,
            None,
        ),
        (
            400,
            "* GenerateContentRequest.tools[0].function_declarations[2].parameters.properties: should be non-empty",
            ToolSchema,
            false,
            None,
        ),
        (
            400,
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            Content,
            false,
            None,
        ),
        (400, "Input data may contain inappropriate content.", Content, false, None),
        // DeepSeek's words for its filter.
        (400, "Content Exists Risk", Content, false, None),
    ] {
        let refusal = about(status, message).unwrap_or_else(|| panic!("no refusal: {message}"));
        assert_eq!(refusal.kind, Some(kind), "{message}");
        assert_eq!((refusal.takes_none, refusal.most), (takes_none, most), "{message}");
    }
}

#[test]
fn other_errors_are_about_no_part() {
    for (status, message) in [
        (400, "Unsupported value: 'temperature' does not support 0.5 with this model."),
        (400, "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens"),
        (400, "Unknown parameter: 'reasoning_effort'."),
        (404, "The model `x` does not exist"),
        (500, "boom"),
        (503, "Loading model"),
        // An image of another kind.
        (503, "the docker image is being pulled"),
        (500, "the number of workers exceeds the limit"),
        (429, "too many images per minute"),
    ] {
        assert_eq!(about(status, message), None, "{message}");
    }
    let unsaid = about(400, "Bad Request").unwrap();
    assert!(!unsaid.is_specific());
    assert_eq!(
        about(400, "The `reasoning_content` in the thinking mode must be passed back to the API")
            .unwrap()
            .kind,
        None,
        // DeepSeek wants more reasoning back, not less.
        "leaving it out does not help"
    );
}

fn part(kind: Option<RefusedPartKind>, error: &str, request: &Value) -> Option<RefusedPart> {
    let refusal = PartRefusal { kind, ..PartRefusal::default() };
    locate(&refusal, error, request.to_string().as_bytes())
}

#[test]
fn a_place_is_looked_up_on_every_wire() {
    let media = |number| Some(RefusedPart::Media(number));
    let anthropic = json!({ "messages": [
        { "role": "user", "content": [
            { "type": "text", "text": "look" },
            { "type": "image", "source": { "type": "base64", "data": "QQ==" } }] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "SIG" },
            { "type": "tool_use", "id": "t1", "name": "read", "input": {} }] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "t1", "content": [
                { "type": "text", "text": "out" },
                { "type": "image", "source": { "type": "base64", "data": "Qg==" } }] }] },
    ], "tools": [{ "name": "read", "input_schema": {} }] });
    let of = |error: &str| part(None, error, &anthropic);
    assert_eq!(of("messages.0.content.1.image.source.base64: image exceeds 5 MB"), media(0));
    assert_eq!(of("messages.2.content.0.tool_result.content.1.image.source: bad"), media(1));
    assert_eq!(of("messages.1.content.0: Invalid signature"), Some(RefusedPart::Reasoning("SIG".into())));
    assert_eq!(of("messages.2.content.0: bad"), Some(RefusedPart::ToolResult("t1".into())));
    assert_eq!(of("messages.0.content.0.text: bad"), Some(RefusedPart::Text("look".into())));
    assert_eq!(of("tools.0.custom.input_schema: bad"), Some(RefusedPart::Tool("read".into())));
    assert_eq!(of("messages.9.content.0: bad"), None);
    assert_eq!(of("nothing is named"), None);

    let chat = json!({ "messages": [
        { "role": "user", "content": "hello" },
        { "role": "tool", "tool_call_id": "c1", "content": "out" },
        { "role": "user", "content": [
            { "type": "text", "text": "see" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,QQ==" } }] },
    ], "tools": [{ "type": "function", "function": { "name": "grep", "parameters": {} } }] });
    let of = |error: &str| part(None, error, &chat);
    assert_eq!(of(r#"{"error":{"param":"messages[2].content[1].image_url","message":"bad"}}"#), media(0));
    assert_eq!(
        of(r#"{"detail":[{"loc":["body","messages",2,"content",1,"image_url"],"msg":"x"}]}"#),
        media(0)
    );
    assert_eq!(of(r#"{"messages":{"2":{"content":{"1":["Not a valid picture."]}}}}"#), media(0));
    // The place stops at the message, so its only picture must be meant.
    assert_eq!(of("messages[2]: has a bad picture"), media(0), "the only one of the message");
    assert_eq!(of("messages[1].content: bad"), Some(RefusedPart::ToolResult("c1".into())));
    assert_eq!(of("messages[0].content: bad"), Some(RefusedPart::Text("hello".into())));
    assert_eq!(of("tools[0].function.parameters: bad"), Some(RefusedPart::Tool("grep".into())));

    let responses = json!({ "input": [
        { "type": "message", "role": "user", "content": [{ "type": "input_image", "image_url": "data:," }] },
        { "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": [] },
        { "type": "function_call_output", "call_id": "c1", "output": "x" },
    ] });
    let of = |error: &str| part(None, error, &responses);
    assert_eq!(of(r#"{"error":{"param":"input[0].content[0].image_url"}}"#), media(0));
    assert_eq!(of("input[1].encrypted_content"), Some(RefusedPart::Reasoning("gAAA".into())));
    assert_eq!(of("input[2].output"), Some(RefusedPart::ToolResult("c1".into())));

    let gemini = json!({ "contents": [{ "role": "user", "parts": [
        { "text": "hi" }, { "inlineData": { "mimeType": "image/png", "data": "QQ==" } }] }],
        "tools": [{ "functionDeclarations": [{ "name": "a" }, { "name": "b" }] }] });
    let of = |error: &str| part(None, error, &gemini);
    assert_eq!(of("Invalid value at 'contents[0].parts[1].inlineData'"), media(0));
    assert_eq!(of("tools[0].functionDeclarations[1].parameters: x"), Some(RefusedPart::Tool("b".into())));
}

#[test]
fn a_tool_is_known_by_its_name() {
    let schema = Some(RefusedPartKind::ToolSchema);
    let of = |error: &str| part(schema, error, &json!({}));
    let tool = |name: &str| Some(RefusedPart::Tool(name.to_owned()));
    assert_eq!(of("Invalid schema for function 'mcp__a__b': no"), tool("mcp__a__b"));
    assert_eq!(of(r#"{"message":"Invalid schema for function \"x\": no"}"#), tool("x"));
    assert_eq!(of("JSON schema conversion failed"), None);
}

#[test]
fn a_reasoning_item_that_was_not_kept_is_found_by_its_id() {
    let body = r#"{"error":{"message":"Item with id 'rs_2' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.","type":"invalid_request_error","param":"input"}}"#;
    let request = json!({ "input": [
        { "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": [] },
        { "type": "reasoning", "id": "rs_2", "encrypted_content": "gBBB", "summary": [] },
    ] });
    let refusal = recognise(Some(404), body, request.to_string().as_bytes()).unwrap();
    assert_eq!(refusal.kind, Some(RefusedPartKind::Reasoning));
    assert_eq!(refusal.part, Some(RefusedPart::Reasoning("gBBB".into())));
    let missing = r#"{"error":{"message":"The model `rs_2` does not exist","type":"invalid_request_error"}}"#;
    assert_eq!(recognise(Some(404), missing, request.to_string().as_bytes()), None);
}

#[test]
fn a_flagged_input_is_refused_content() {
    let body = r#"{"error":{"code":403,"message":"m requires moderation on openai. Your input was flagged for \"violence\"."}}"#;
    let refusal = recognise(Some(403), body, b"{}").unwrap();
    assert_eq!(refusal.kind, Some(RefusedPartKind::Content));
    assert_eq!(recognise(Some(403), r#"{"error":{"message":"Invalid API key"}}"#, b"{}"), None);
}

#[test]
fn the_signature_of_a_call_is_found_at_its_place() {
    let signature =
        |said: &str, request: Value| recognise(Some(400), said, request.to_string().as_bytes()).unwrap().part;
    let call = json!({ "functionCall": { "name": "read", "args": {} }, "thoughtSignature": "c2ln" });
    let gemini = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "hi" }] }, { "role": "model", "parts": [call] },
    ] });
    let said = r#"{"error":{"code":400,"message":"Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding failed","status":"INVALID_ARGUMENT"}}"#;
    assert_eq!(signature(said, gemini.clone()), Some(RefusedPart::Reasoning("c2ln".to_owned())));
    let unplaced =
        r#"{"error":{"code":400,"message":"Corrupted thought signature.","status":"INVALID_ARGUMENT"}}"#;
    assert_eq!(signature(unplaced, gemini), None);
    let call = json!({ "id": "c", "extra_content": { "google": { "thought_signature": "c2ln" } } });
    let chat = json!({ "messages": [{ "role": "assistant", "tool_calls": [call] }] });
    let said = r#"{"error":{"message":"messages[0].tool_calls[0]: invalid thought signature"}}"#;
    assert_eq!(signature(said, chat), Some(RefusedPart::Reasoning("c2ln".to_owned())));
}

#[test]
fn a_missing_signature_is_no_part_to_leave_out() {
    let missing = "Function call is missing a thought_signature in functionCall parts.";
    assert_eq!(about(400, missing).unwrap().kind, None);
    assert_eq!(about(400, "Corrupted thought signature.").unwrap().kind, Some(RefusedPartKind::Reasoning));
}
