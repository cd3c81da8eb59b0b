"""What a compile did, for people: variants, causes, schedules."""
