"""The skill `converse`: asking which thing is meant if the words leave it open, and going by the answer."""
