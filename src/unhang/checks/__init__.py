"""What ``unhang check`` looks at: one question per file. They look and never judge; ``rules/risks`` judges."""
