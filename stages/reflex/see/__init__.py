"""The skill see: unseen handwritten digits."""
