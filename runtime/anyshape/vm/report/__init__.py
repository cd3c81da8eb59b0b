"""Reports of compiles, for people: variants, causes, schedules."""
