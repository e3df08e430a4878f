"""Rows come in: the source of a day, the contract at the door, the landing; and the labels that come later."""
