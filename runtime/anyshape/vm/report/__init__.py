"""What a compile did and what a call takes, for people."""
