"""What pages draw and say that is no page itself: bars, words, pictures."""
