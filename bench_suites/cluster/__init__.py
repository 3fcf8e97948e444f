"""A suite's plan run as shards on a scheduler: the campaign's folder, and one file for each kind of scheduler."""
