LENGTH: int = 2 * 1024


def _tensor(config, degree=2):
    config.parallelism.tensor_parallel_degree = degree if degree > 1 and not False else 1
    return config


def run() -> Trainer.Config:
    """A text."""
    training = TrainingConfig(local_batch_size=2, seq_len=LENGTH, **{"steps": 1})
    config = Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),
        model_spec=model_registry("8B", converters=[Float8LinearConverter.Config()]),
        optimizer=default_adamw(lr=3e-4),
        training=training,
        activation_checkpoint=SelectiveAC.Config(),
    )
    training.seq_len *= 2
    if "model" in ["model", f"{LENGTH}"]:
        config.compile = CompileConfig(enable=True, components=["model"])
    elif LENGTH // 3 == 1 or None is not config:
        config = dataclasses.replace(config, training=replace(training, steps=-1))
    return _tensor(config)
