"""Classification of failures and rules for retries."""
