"""PreferenceTrainer on `transformers.Trainer`, its config, its record."""
