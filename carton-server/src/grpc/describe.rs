//! What the server says of itself and of its models.

use axum::body::Body;
use axum::http::Response;

use super::framing::{Incoming, one};
use super::proto;
use crate::app::{App, EXTENSIONS, SERVER_NAME, SERVER_VERSION};
use crate::failure::Failure;
use crate::listing::{self, Duration, InferenceStatistics, ModelStatistics};
use crate::protocol::description::{ModelConfig, ModelMetadata, TensorConfig, TensorMetadata};

pub(super) async fn server(incoming: Incoming) -> Result<Response<Body>, Failure> {
    incoming.only::<proto::ServerMetadataRequest>().await?;
    one(&proto::ServerMetadataResponse {
        name: SERVER_NAME.to_owned(),
        version: SERVER_VERSION.to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    })
}

pub(super) async fn model(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    let proto::ModelMetadataRequest { name, version } = incoming.only().await?;
    let served = app.repository.find(&name, Some(&version))?;
    let metadata = ModelMetadata::new(&name, app.repository.versions(&name), served.package().metadata());
    let describe = |tensors: Vec<TensorMetadata>| {
        let describe = |tensor: TensorMetadata| proto::model_metadata_response::TensorMetadata {
            name: tensor.name,
            datatype: tensor.datatype.to_owned(),
            shape: tensor.shape,
        };
        tensors.into_iter().map(describe).collect()
    };
    one(&proto::ModelMetadataResponse {
        name: metadata.name,
        versions: metadata.versions,
        platform: metadata.platform,
        inputs: describe(metadata.inputs),
        outputs: describe(metadata.outputs),
    })
}

pub(super) async fn config(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    let proto::ModelConfigRequest { name, version } = incoming.only().await?;
    let served = app.repository.find(&name, Some(&version))?;
    let config = ModelConfig::new(&name, served.max_batch(), served.package().metadata());
    let data_type =
        |tensor: &TensorConfig| proto::DataType::from_str_name(&tensor.data_type).unwrap_or_default().into();
    let input = |tensor: TensorConfig| proto::ModelInput {
        data_type: data_type(&tensor),
        name: tensor.name,
        dims: tensor.dims,
        optional: tensor.optional,
    };
    let output = |tensor: TensorConfig| proto::ModelOutput {
        data_type: data_type(&tensor),
        name: tensor.name,
        dims: tensor.dims,
    };
    let batching = proto::model_config::SchedulingChoice::DynamicBatching(proto::ModelDynamicBatching::default());
    let config = proto::ModelConfig {
        scheduling_choice: (config.max_batch_size > 0).then_some(batching),
        name: config.name,
        platform: config.platform,
        backend: config.backend,
        max_batch_size: i32::try_from(config.max_batch_size).unwrap_or(i32::MAX),
        input: config.input.into_iter().map(input).collect(),
        output: config.output.into_iter().map(output).collect(),
        ..Default::default()
    };
    one(&proto::ModelConfigResponse { config: Some(config) })
}

pub(super) async fn statistics(app: &App, incoming: Incoming) -> Result<Response<Body>, Failure> {
    let proto::ModelStatisticsRequest { name, version } = incoming.only().await?;
    let model_stats = match name.is_empty() {
        false => vec![ModelStatistics::new(app.repository.find(&name, Some(&version))?.as_ref())],
        true => listing::statistics(app),
    };
    let model_stats = model_stats.into_iter().map(statistics_of).collect();
    one(&proto::ModelStatisticsResponse { model_stats })
}

fn statistics_of(statistics: ModelStatistics) -> proto::ModelStatistics {
    let InferenceStatistics { success, fail, queue, compute_input, compute_infer, compute_output } =
        statistics.inference_stats;
    let of = |duration: Duration| Some(proto::StatisticDuration { count: duration.count, ns: duration.ns });
    proto::ModelStatistics {
        name: statistics.name,
        version: statistics.version,
        inference_count: statistics.inference_count,
        execution_count: statistics.execution_count,
        inference_stats: Some(proto::InferStatistics {
            success: of(success),
            fail: of(fail),
            queue: of(queue),
            compute_input: of(compute_input),
            compute_infer: of(compute_infer),
            compute_output: of(compute_output),
            ..Default::default()
        }),
        ..Default::default()
    }
}
