"""Kafka itself: its brokers, logins, topics and consumer groups, and what its errors mean.

connection              how every client connects and logs in
login_errors, msk_token errors of logins, and the login of Amazon MSK
topics                  finds the broker and the topics at start
group                   the members of the consumer group, and the rights on it
questions               asks for offsets and ids; one way to ask, one table of errors
end_offsets             the ends of partitions, for the lag
ids, watch              whether topic and cluster are still those that were claimed
errors                  what ends consuming, and what does not
"""
