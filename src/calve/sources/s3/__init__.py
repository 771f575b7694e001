"""Objects of S3: found by listing buckets, or by the notifications of a queue."""
