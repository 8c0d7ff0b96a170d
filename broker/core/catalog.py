"""What is served, as gateways need to know it."""

from broker.core.config import MosecConfig
from broker.core.document import version_documents
from broker.core.ledger import Ledger
from broker.core.stage import Pipeline, Stage
from broker.core.states import BrokerState
from broker.wire.messages import Catalog, MosecInfo, PipelineInfo, StageInfo, VersionInfo


def catalog(ledger: Ledger) -> Catalog:
    """All that gateways need to know of what is served."""
    pipelines = [
        PipelineInfo(
            name=each.name,
            stages=[
                StageInfo(
                    name=stage.name,
                    ready_workers=stage.ready_workers,
                    workers=len(stage.workers),
                    max_batch_size=stage.largest_batch,
                    versions=stage.versions(),
                    reason=stage.reason(),
                    signature=_signature(stage),
                )
                for stage in each.stages
            ],
            timeout_s=each.config.timeout_s,
            max_items=each.config.max_items,
            max_bytes=each.config.max_bytes,
            headers=list(each.config.headers),
            versions=each.versions(),
            absent_s=each.config.absent_s,
            sticky=each.rollout.traffic.sticky,
            labels=each.rollout.traffic.all_labels(),
            states=_states(each),
            routes=list(each.config.routes),
            mosec=_mosec(each.config.mosec),
        )
        for each in ledger.pipelines.values()
    ]
    return Catalog(ledger.epoch, pipelines, draining=ledger.state is not BrokerState.RUNNING)


def _mosec(config: MosecConfig | None) -> MosecInfo | None:
    if config is None:
        return None
    return MosecInfo(config.namespace, config.streams, config.openapi)


def _states(pipeline: Pipeline) -> list[VersionInfo]:
    if pipeline.split is None:
        return []
    return [
        VersionInfo(each.version, each.state, each.share) for each in version_documents(pipeline)
    ]


def _signature(stage: Stage) -> bytes:
    """What its latest worker declares, one that is ready before one that is not."""
    workers = sorted(stage.workers.values(), key=lambda worker: worker.serving)
    return workers[-1].hello.signature if workers else b""
