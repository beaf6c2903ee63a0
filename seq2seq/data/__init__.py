"""From corpus files to padded batches: corpus -> store -> sampler -> batch."""
