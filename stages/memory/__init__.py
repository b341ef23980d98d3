"""The second stage: remembering what is not seen any more, for seconds by the trunk and for good by the store."""
