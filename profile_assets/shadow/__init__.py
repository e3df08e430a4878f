"""A bundle scored and compared beside what is published, in a process of its own, for nobody to see."""
