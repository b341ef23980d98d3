"""The skill `grammar`: telling correct sentences from wrong ones."""
