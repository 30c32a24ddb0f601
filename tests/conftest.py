"""What all tests share: this folder on the path, so that `support` can be imported."""
