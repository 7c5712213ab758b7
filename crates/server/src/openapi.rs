//! The description of the API (OpenAPI 3.1), generated from the routes and their types.

mod absent;
pub(crate) mod answer;
mod events;
pub(crate) mod part;

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{
    AdditionalProperties, Discriminator, Object, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Required, ResponseBuilder, SecurityRequirement};
use utoipa::{Modify, OpenApi as _};

use self::events::{EVENTS, EventPersistence, Events};
use crate::routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Longhaul",
        description = "Agents whose conversations never run out of room. Times are milliseconds since 1970, tokens are \
                       counts, positions (`seq`) count the events of a session's log from 1.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    paths(
        routes::health::alive, routes::health::ready,
        routes::page::index, routes::page::asset, routes::login::open, routes::login::login, routes::login::logout,
        routes::message::send,
        routes::queue::list, routes::queue::clear, routes::queue::edit, routes::queue::remove,
        routes::sessions::create, routes::sessions::list, routes::sessions::show, routes::sessions::rename,
        routes::sessions::delete, routes::sessions::fork,
        routes::messages::page, routes::context::show, routes::events::watch,
        routes::control::cancel, routes::control::resume, routes::control::retry,
        routes::compactions::compact, routes::compactions::list, routes::compactions::undo, routes::compactions::release,
        routes::orders::list, routes::orders::pin, routes::orders::edit, routes::orders::remove,
        routes::recall::recall, routes::export::export, routes::blobs::upload, routes::blobs::read,
        routes::approvals::list, routes::approvals::decide,
        routes::models::list, routes::render::render, routes::settings::show, routes::settings::change, routes::search::search, routes::agents::list, routes::llm::switch, routes::metrics::show,
        routes::ui_stream::chat, routes::ui_stream::reconnect, routes::agui::run, document,
    ),
    components(schemas(answer::ProblemDocument, crate::routes::messages::RenderForm, crate::routes::export::ExportFormat)),
    modifiers(&CommonRouteParts),
)]
struct OpenApiDocument;

/// The description as JSON, generated once.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = whole().to_pretty_json().unwrap_or_default();
    // The text is also a file in the repository, which ends with a line break.
    text.push('\n');
    text
});

/// Returns the description of the API (OpenAPI 3.1) as JSON.
pub fn openapi() -> &'static str {
    &TEXT
}

/// Get this description
#[utoipa::path(get, path = "/openapi.json", operation_id = "getOpenapi", tag = "server",
    responses((status = 200, body = Object, content_type = "application/json", description = "OpenAPI 3.1")))]
pub(crate) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi()).into_response()
}

fn whole() -> OpenApi {
    let mut document = OpenApiDocument::openapi();
    // The events have a list of their own, because each also needs its name and its persistence.
    document.merge(Events::openapi());
    complete_events(&mut document);
    // Events without fields of their own have fields only now, and objects without fields are not closed.
    close_objects(&mut document);
    absent::never_null(&mut document);
    document
}

/// The common parts of all routes.
struct CommonRouteParts;

impl Modify for CommonRouteParts {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The server's token."));
        components.add_security_scheme("token", SecurityScheme::Http(bearer.build()));
        let cookie =
            ApiKeyValue::with_description("longhaul", "The page's cookie. Its name ends in the port.");
        components.add_security_scheme("cookie", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in operations(item) {
                complete(path, method, operation);
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, post, patch, put, delete, .. } = item;
    let all = [("get", get), ("post", post), ("patch", patch), ("put", put), ("delete", delete)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// The path prefixes of routes with a session in the body.
const NAMES_IN_BODY: [&str; 4] = ["/api/message", "/api/approvals", "/api/ui/chat", "/api/ag-ui"];

/// Adds the parameters and problems implied by a route's path and method.
fn complete(path: &str, method: &str, operation: &mut Operation) {
    let is_open = ["/healthz", "/readyz"].contains(&path);
    let is_page_or_login = crate::guard::is_page_or_login(path);
    // An upload and a rendering change nothing that a repetition would change twice.
    let takes_key =
        method == "post" && !is_page_or_login && !["/api/render", "/api/sessions/{id}/blobs"].contains(&path);
    if takes_key {
        let key = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("An idempotency key: a repeated request with the same key has no effect and gets the first response."))
            .schema(Some(
                ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(255)),
            ));
        operation.parameters.get_or_insert_default().push(RefOr::T(key.build()));
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(Parameter { schema: Some(schema), .. }) = parameter {
            absent::plain(schema);
        }
    }
    let names_something = path.contains('{') || NAMES_IN_BODY.iter().any(|start| path.starts_with(start));
    let mut problems = Vec::new();
    if !is_open {
        problems.extend([400, 403, 429, 500]);
    }
    // The health check says only that the process lives, so it cannot be unavailable.
    if path != "/healthz" {
        problems.push(503);
    }
    if !is_open && (!is_page_or_login || path == "/api/login") {
        problems.push(401);
    }
    if names_something {
        problems.extend([404, 409]);
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        problems.extend([408, 413, 415]);
        let is_optional = body.content.values().any(|content| match content {
            RefOr::T(Content { schema: Some(RefOr::Ref(schema)), .. }) => {
                OPTIONAL.iter().any(|name| schema.ref_location.ends_with(&format!("/{name}")))
            }
            _ => false,
        });
        body.required = Some(if is_optional { Required::False } else { Required::True });
    }
    if takes_key {
        problems.push(422);
    }
    problems.sort_unstable();
    for status in problems {
        // A route that describes a status itself keeps its own description.
        operation.responses.responses.entry(status.to_string()).or_insert_with(|| RefOr::T(problem(status)));
    }
    if !is_open && !is_page_or_login {
        let either = ["token", "cookie"].map(|scheme| SecurityRequirement::new::<_, _, &str>(scheme, []));
        operation.security = Some(either.to_vec());
    }
}

fn problem(status: u16) -> utoipa::openapi::Response {
    let why = match status {
        400 => "The request is invalid.",
        401 => "The token is missing or wrong.",
        403 => "The host name, or the origin of the page, is not allowed.",
        404 => "The named resource does not exist.",
        409 => "The request conflicts with the current state.",
        408 => "The request body did not arrive in time.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The idempotency key belongs to another request, or the request was refused.",
        429 => "Too many requests. `Retry-After` tells when to try again.",
        503 => "The store does not answer, or the server is ending.",
        _ => "The server failed.",
    };
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    ResponseBuilder::new().description(why).content("application/problem+json", content).build()
}

/// Adds the common fields to each event, and combines all events as `Event`.
fn complete_events(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let mut any = OneOfBuilder::new().description(Some("One event of a session's stream."));
    let mut names = Vec::new();
    for (event, schema, kept) in EVENTS {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(*schema) {
            complete_event(object, event, *kept);
        }
        // The discriminator names the schema of each event, so that generated clients need not try one after another.
        any = any.item(Ref::from_schema_name(*schema));
        names.push((*event, format!("#/components/schemas/{schema}")));
    }
    let discriminator = Discriminator::with_mapping("name", names);
    let any = any.discriminator(Some(discriminator)).build();
    components.schemas.insert("Event".to_owned(), RefOr::T(Schema::OneOf(any)));
}

fn complete_event(object: &mut Object, event: &str, kept: EventPersistence) {
    let name = text_schema().enum_values(Some([event])).build();
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    // The common fields come first in the description, so the event's own are put back behind them.
    let own = std::mem::take(&mut object.properties);
    put_property(object, "name", name, true);
    put_property(object, "sessionId", text_schema().build(), true);
    if kept != EventPersistence::Never {
        put_property(object, "seq", number.build(), kept == EventPersistence::Always);
    }
    put_property(object, "runId", text_schema().build(), false);
    object.properties.extend(own);
    object.schema_type = SchemaType::Type(Type::Object);
}

fn text_schema() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn put_property(object: &mut Object, key: &str, schema: Object, is_required: bool) {
    object.properties.insert(key.to_owned(), RefOr::T(Schema::Object(schema)));
    if is_required && !object.required.iter().any(|name| name == key) {
        object.required.push(key.to_owned());
    }
}

/// The schemas completed at their places of use, or by clients of other projects.
const OPEN: [&str; 9] = [
    "GivenMedia",
    "Media",
    "UiChat",
    "UiMessage",
    "UiPart",
    "AgUiInput",
    "AgUiMessage",
    "AgUiResume",
    "AgUiEvent",
];

/// The optional bodies.
const OPTIONAL: [&str; 5] = ["NewSession", "ForkSession", "CancelRun", "ResumeRun", "CompactRequest"];

/// Forbids undescribed fields in all closed schemas.
fn close_objects(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for (name, schema) in &mut components.schemas {
        if let RefOr::T(Schema::Object(object)) = schema
            && !OPEN.contains(&name.as_str())
            // An object without described fields may have any.
            && !object.properties.is_empty()
            && object.additional_properties.is_none()
        {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
}
