# part: slow
# requires: networkx==3.6.1 numpy==2.4.6 scipy==1.17.1
import networkx


def run():
    graph = networkx.karate_club_graph()
    ranks = networkx.pagerank(graph)
    communities = networkx.community.greedy_modularity_communities(graph)
    path = networkx.shortest_path_length(graph, 16, 26)
    return {"numbers": [ranks[0], ranks[33], len(communities), path, networkx.average_clustering(graph)]}
